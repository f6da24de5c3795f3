import assert from "node:assert/strict";
import { test } from "node:test";
import { type Passage, heard } from "../src/job/passages";

const chunk = (said: unknown, more: object = {}): string =>
  JSON.stringify({ stream: "text", step_key: "0/ask#1", attempt: 1, offset: 0, said, missing: 0, ...more });

test("pieces of one attempt are one passage", () => {
  const all = ["Kelp ", "holds."].reduce<readonly Passage[]>((before, said) => heard(before, "chunk", chunk(said)), []);
  assert.deepEqual(
    all.map((one) => one.text),
    ["Kelp holds."],
  );
});

test("a second attempt resets the first, and the first stays visible as lost", () => {
  let all = heard([], "chunk", chunk("Kelp "));
  all = heard(all, "chunk", chunk("aside", { step_key: "0/other#1" }));
  all = heard(all, "attempt_superseded", JSON.stringify({ step_key: "0/ask#1", attempt: 2, cursor: "2.1" }));
  all = heard(all, "chunk", chunk("Kelp holds.", { attempt: 2 }));
  assert.deepEqual(
    all.map((one) => [one.text, one.superseded]),
    [
      ["Kelp ", true],
      ["aside", false],
      ["Kelp holds.", false],
    ],
  );
});

test("what is not text is shown as JSON, and other events say nothing", () => {
  assert.equal(heard([], "chunk", chunk({ percent: 40 }))[0]?.text, '{\n  "percent": 40\n}\n');
  assert.deepEqual(heard([], "end", '{"status":"completed"}'), []);
});
