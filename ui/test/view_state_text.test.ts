import assert from "node:assert/strict";
import { test } from "node:test";
import { ALL, foldsText, readFolds, readZoom, zoomText } from "../src/job/view_state_text";

const scopes = ["/a", "/a/b", "/c"];

test("how close one looks is said and read again", () => {
  assert.equal(zoomText(ALL), null);
  assert.equal(zoomText({ from: 0.125, to: 0.5 }), "0.125-0.5");
  assert.deepEqual(readZoom("0.125-0.5"), { from: 0.125, to: 0.5 });
  for (const odd of [null, "", "0.5-0.1", "a-b", "1-1", "..-.."]) assert.deepEqual(readZoom(odd), ALL);
});

test("what is folded is said by its place", () => {
  assert.equal(foldsText(new Set(), scopes), null);
  assert.equal(foldsText(new Set(scopes), scopes), "all");
  assert.equal(foldsText(new Set(["/c", "/a"]), scopes), "0.2");
  assert.deepEqual(readFolds("0.2", scopes), new Set(["/a", "/c"]));
  assert.deepEqual(readFolds("all", scopes), new Set(scopes));
  assert.deepEqual(readFolds("7.x.-1", scopes), new Set());
});
