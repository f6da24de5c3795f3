import assert from "node:assert/strict";
import { test } from "node:test";
import { type Told, parser } from "../src/core/sse";

const WIRE =
  ': still here\n\nid: 3.17\nevent: chunk\ndata: {"said":"é"}\n\nevent: end\r\ndata: one\r\ndata: two\r\n\r\n';
const TOLD: Told[] = [
  { id: "3.17", event: "chunk", data: '{"said":"é"}' },
  { id: "3.17", event: "end", data: "one\ntwo" },
];

test("events are told whole, however the wire cuts them", () => {
  for (let size = 1; size <= WIRE.length; size += 1) {
    const heard: Told[] = [];
    const take = parser((told) => heard.push(told));
    for (let from = 0; from < WIRE.length; from += size) take(WIRE.slice(from, from + size));
    assert.deepEqual(heard, TOLD, `in pieces of ${size}`);
  }
});

test("an event that was not ended is not told", () => {
  const heard: Told[] = [];
  parser((told) => heard.push(told))("id: 1\ndata: half\n");
  assert.deepEqual(heard, []);
});
