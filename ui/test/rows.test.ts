import assert from "node:assert/strict";
import { test } from "node:test";
import type { Seam, Span, Trace } from "../src/core/types";
import { asOf } from "../src/job/as_of";
import { Axis } from "../src/job/axis";
import { rowsOf, scopesOf, stretchesOf } from "../src/job/rows";

const span = (seq: number, more: Partial<Span> = {}): Span => ({
  kind: "read",
  name: `step#${seq}`,
  step_key: `0/step#${seq}`,
  scope: [],
  seq,
  start_at: seq * 10,
  end_at: seq * 10 + 5,
  end_seq: seq,
  outcome: "succeeded",
  start_known: true,
  effect: "",
  key: "",
  attempt: 1,
  generation: 0,
  worker: "w",
  sent_at: [],
  args: null,
  result: 1,
  error: null,
  notes: [],
  usage: null,
  ...more,
});
const seam = (kind: string, seq: number, more: Partial<Seam> = {}): Seam => ({
  kind,
  seq,
  at: seq * 10,
  text: kind,
  worker: "w",
  fence: 1,
  until: null,
  ...more,
});
const trace = (spans: Span[], seams: Seam[]): Trace => ({
  job_id: "j",
  kind: "k",
  status: "completed",
  start_at: 10,
  end_at: 1000,
  over: true,
  spans,
  seams,
  notes: [],
  plans: [],
});

test("the scopes of a model's tool calls have no rows", () => {
  const life = trace([span(2, { scope: ["run_tools#1", "call-0#1"] }), span(3, { scope: ["mine#1", "run_tools#2", "call-1#1"] })], []);
  assert.deepEqual(
    rowsOf(life, new Set()).map((row) => [row.kind, row.depth]),
    [
      ["span", 0],
      ["scope", 0],
      ["span", 1],
    ],
  );
  assert.deepEqual(scopesOf(life), ["/mine#1"]);
});

test("calls lie under their scopes, in the order of the journal", () => {
  const life = trace(
    [span(2), span(4, { scope: ["a#1", "b#1"], start_at: 0 }), span(5, { scope: ["a#1"] }), span(7)],
    [seam("created", 1), seam("ended", 8)],
  );
  assert.deepEqual(
    rowsOf(life, new Set()).map((row) => [row.kind, row.depth, row.name]),
    [
      ["seam", 0, "created"],
      ["span", 0, "step#2"],
      ["scope", 0, "a#1"],
      ["scope", 1, "b#1"],
      ["span", 2, "step#4"],
      ["span", 1, "step#5"],
      ["span", 0, "step#7"],
      ["seam", 0, "ended"],
    ],
  );
  assert.deepEqual(scopesOf(life), ["/a#1", "/a#1/b#1"]);
  const folded = rowsOf(life, new Set(["/a#1"]));
  assert.equal(folded.length, 5);
  assert.equal(folded.find((row) => row.kind === "scope")?.spans?.length, 2);
});

test("who drove it when, and when nobody did", () => {
  const life = trace(
    [],
    [
      seam("created", 1),
      seam("claimed", 2, { worker: "a" }),
      seam("takeover", 3, { worker: "b", fence: 2 }),
      seam("waiting", 4),
      seam("claimed", 5, { worker: "c", fence: 3 }),
      seam("signal", 6),
      seam("ended", 7),
    ],
  );
  assert.deepEqual(
    stretchesOf(life).map((one) => [one.kind, one.worker, one.from, one.to, one.takeover]),
    [
      ["waits", "", 10, 20, false],
      ["driven", "a", 20, 30, false],
      ["driven", "b", 30, 40, true],
      ["waits", "", 40, 50, false],
      ["driven", "c", 50, 70, false],
    ],
  );
});

test("nobody drives a job that is held because its code stands still", () => {
  const life = trace([], [seam("created", 1), seam("claimed", 2), seam("stalled", 3), seam("claimed", 5)]);
  assert.deepEqual(
    stretchesOf(life).map((one) => [one.kind, one.from, one.to]),
    [
      ["waits", 10, 20],
      ["driven", 20, 30],
      ["waits", 30, 50],
      ["driven", 50, null],
    ],
  );
  assert.equal(asOf(life, 4).status, "waiting");
});

test("as of an event, later outcomes are not known", () => {
  const effect = span(3, { kind: "effect", end_seq: 6, end_at: 60, sent_at: [30, 55], attempt: 2 });
  const life = trace([span(2), effect, span(7)], [seam("created", 1), seam("claimed", 2), seam("ended", 8)]);
  const then = asOf(life, 4);
  assert.deepEqual(
    then.spans.map((one) => [one.seq, one.outcome, one.result]),
    [
      [2, "succeeded", 1],
      [3, "open", null],
    ],
  );
  assert.deepEqual(then.spans[1]?.sent_at, [30]);
  assert.equal(then.status, "running");
  assert.equal(then.over, false);
  assert.equal(asOf(life, 8).over, true);
  assert.equal(asOf(life, 8).spans[1]?.outcome, "succeeded");
});

test("an axis keeps the order, and squeezes what is long only when asked to", () => {
  const life = trace([span(2), span(3, { start_at: 1_000_000, end_at: 1_000_010 })], []);
  const squeezed = new Axis(life, 1_000_010, false);
  const scaled = new Axis(life, 1_000_010, true);
  assert.ok(squeezed.squeezed && !scaled.squeezed);
  assert.ok(squeezed.at(25) > scaled.at(25) * 10);
  for (const axis of [squeezed, scaled]) {
    assert.equal(axis.at(10), 0);
    assert.equal(axis.at(1_000_010), 1);
    for (const instant of [10, 22, 25, 500, 999_999, 1_000_005])
      assert.ok(Math.abs(axis.instantAt(axis.at(instant)) - instant) < 1);
  }
});
