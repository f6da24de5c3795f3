import assert from "node:assert/strict";
import { test } from "node:test";
import { errorLine, lastError, tracebackText } from "../src/text/traceback";

const FRAME = { file: "/app/shop.py", line: 12, function: "pay", code: "PRICES[item]" };
const ERROR = { type: "KeyError", message: "'nope'", traceback: [FRAME] };

test("a recorded error is shown as Python prints it", () => {
  assert.equal(errorLine(ERROR), "KeyError: 'nope'");
  assert.equal(tracebackText(ERROR), 'File "/app/shop.py", line 12, in pay\n  PRICES[item]\nKeyError: \'nope\'');
});

test("the error behind an error comes first", () => {
  const text = tracebackText({ type: "RuntimeError", message: "closed", traceback: [FRAME], cause: ERROR });
  assert.ok(text.indexOf("KeyError") < text.indexOf("which led to"));
  assert.ok(text.endsWith("RuntimeError: closed"));
});

test("of many causes the last error counts", () => {
  const causes = [
    { why: "failed", error: { type: "First" } },
    { why: "failed", error: ERROR },
    { why: "its worker was lost" },
  ];
  assert.equal(lastError(causes), ERROR);
  assert.equal(lastError(ERROR), ERROR);
});

test("what is no traceback is none", () => {
  for (const value of [null, undefined, 3, "text", [], {}, { type: "X" }, { traceback: "x" }, { traceback: [1] }]) {
    assert.equal(tracebackText(value), "");
  }
});
