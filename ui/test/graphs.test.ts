import assert from "node:assert/strict";
import { test } from "node:test";
import type { Session, SessionNode } from "../src/core/types";
import { raiseFields, readLimits } from "../src/home/budget_raise";
import { place } from "../src/job/plan_layout";
import { branchesOf, pathTo, sayingOf } from "../src/session/nodes";

const node = (node_id: string, parent_node_id: string | null, body: unknown = null): SessionNode => ({
  node_id,
  parent_node_id,
  body,
  caused_by: null,
  frame_id: null,
  at: 0,
});
const session = (nodes: SessionNode[], leaf: string): Session => ({
  session_id: "s",
  revision: 1,
  leaf_node_id: leaf,
  active_path: [],
  nodes,
  frames: [],
  frame_id: null,
  turn_index: 0,
  usage: [],
});

test("a conversation that forks is stretches under stretches", () => {
  const talk = session([node("a", null), node("b", "a"), node("c", "b"), node("d", "b"), node("e", "d")], "e");
  assert.deepEqual(
    branchesOf(talk).map((one) => [one.first.node_id, one.leaf.node_id, one.length, one.depth]),
    [
      ["a", "b", 2, 0],
      ["c", "c", 1, 1],
      ["d", "e", 2, 1],
    ],
  );
  assert.deepEqual(
    pathTo(talk, "c").map((one) => one.node_id),
    ["a", "b", "c"],
  );
});

test("a graph that runs in a circle ends", () => {
  assert.equal(pathTo(session([node("a", "b"), node("b", "a")], "a"), "a").length, 2);
  assert.equal(
    place([
      { name: "a", tool: "t", after: ["b"], state: "open" },
      { name: "b", tool: "t", after: ["a"], state: "open" },
    ]).placed.size,
    2,
  );
});

test("what was said is told by whom", () => {
  assert.deepEqual(sayingOf(node("a", null, { kind: "message", input: { content: "hello" } })), {
    role: "user",
    text: "hello",
    raw: { kind: "message", input: { content: "hello" } },
  });
  assert.equal(
    sayingOf(node("a", null, { message: { role: "assistant", content: [{ type: "text", text: "hi" }] } })).text,
    "hi",
  );
});

test("a node of a plan lies right of all it comes after", () => {
  const { placed } = place([
    { name: "a", tool: "t", after: [], state: "succeeded" },
    { name: "b", tool: "t", after: ["a"], state: "open" },
    { name: "c", tool: "t", after: ["a", "b"], state: "to come" },
  ]);
  const x = (name: string): number => placed.get(name)?.x ?? Number.NaN;
  assert.ok(x("a") < x("b") && x("b") < x("c"));
});

test("the limit that was reached is the one that is raised", () => {
  const [field, ...others] = raiseFields(["holdfast raise j --usd 4.5 --why '…'", "holdfast cancel j"]);
  assert.deepEqual([field?.name, field?.value, others], ["usd_micros", "4.5", []]);
  assert.deepEqual(readLimits({ usd_micros: "4.5", tokens: "" }), { usd_micros: 4_500_000 });
});
