import assert from "node:assert/strict";
import { test } from "node:test";
import { Exact, compact, parseExact, pretty } from "../src/text/exact";

test("JSON is printed as JSON", () => {
  const value = { a: [1, 2, { b: null }], c: "x\u2028", d: {}, e: [], f: -1.5, g: true };
  assert.deepEqual(JSON.parse(pretty(value)), value);
  assert.deepEqual(JSON.parse(compact(value)), value);
});

test("microseconds are plain numbers", () => {
  assert.deepEqual(parseExact('{"at": 1794849500430179}'), { at: 1794849500430179 });
});

test("a number that is too long for JavaScript is never shown as another", () => {
  // Engines that tell the source of a number keep its digits; those that do not, read it as JSON.parse does.
  let tells = false;
  JSON.parse("1", ((_key: string, value: unknown, source?: { source?: string }) => {
    tells ||= source?.source === "1";
    return value;
  }) as (key: string, value: unknown) => unknown);
  const value = parseExact('{"cents": 9007199254740993}') as { cents: unknown };
  if (tells) {
    assert.ok(value.cents instanceof Exact);
    assert.equal(compact(value), '{"cents": 9007199254740993}');
  } else {
    assert.equal(value.cents, Number("9007199254740993"));
  }
});
