import assert from "node:assert/strict";
import { test } from "node:test";
import { meant } from "../src/core/keys";

const one = (keys: string): { keys: string; what: string; do(): void } => ({ keys, what: keys, do: () => undefined });
const around = [one("g j"), one("g h"), one("t")];
const shown = [one("j"), one("h"), one("t")];

test("two keys go to a page, also where the second has a meaning of its own", () => {
  assert.equal(meant([around, shown], "g j", "j"), around[0]);
  assert.equal(meant([around, shown], "", "j"), shown[0]);
});

test("the page that is shown comes first", () => {
  assert.equal(meant([around, shown], "", "t"), shown[2]);
  assert.equal(meant([around, shown], "", "g"), undefined);
});
