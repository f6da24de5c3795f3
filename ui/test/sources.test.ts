import assert from "node:assert/strict";
import { readFileSync, readdirSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";

const FORBIDDEN: readonly (readonly [RegExp, string])[] = [
  [/innerHTML|outerHTML|insertAdjacentHTML|document\.write/, "text of others becomes markup"],
  [/\beval\(|new Function\(/, "text of others becomes code"],
  [/<img\b|<iframe\b/, "something is fetched because of what others wrote"],
  [/EventSource\(/, "it cannot send the token"],
  [/document\.cookie/, "there is no cookie"],
  [/\bstyle="/, "the policy forbids styles in markup"],
];

const sources = readdirSync("src", { recursive: true, encoding: "utf8" })
  .filter((name) => /\.(tsx?|html)$/.test(name))
  .map((name) => [name, readFileSync(join("src", name), "utf8")] as const);

test("nothing that others wrote can become markup, code or a request", () => {
  assert.ok(sources.length > 50);
  const found = sources.flatMap(([name, text]) =>
    FORBIDDEN.filter(([what]) => what.test(text)).map(([, why]) => `${name}: ${why}`),
  );
  assert.deepEqual(found, []);
});

test("the document has no script and no style of its own", () => {
  const html = sources.find(([name]) => name === "index.html")?.[1] ?? "";
  assert.match(html, /<script type="module" src="\/static\/page\.js"><\/script>/);
  assert.doesNotMatch(html, /<style|<script>|\son\w+=/);
});

test("a file is no longer than one reads", () => {
  const long = sources.filter(([, text]) => text.split("\n").length > 400).map(([name]) => name);
  assert.deepEqual(long, []);
});
