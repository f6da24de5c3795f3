import assert from "node:assert/strict";
import { test } from "node:test";
import { line, parts, visible } from "../src/text/visible";

test("what can be read is left as it is", () => {
  const text = "Überweisung: 42,00 € an 山田さん\n\tzweite Zeile 👩‍👩‍👧 ✔️";
  assert.deepEqual(parts(text), [{ text }]);
});

test("what turns text around is named", () => {
  const found = parts("invoice\u202Efdp.exe");
  assert.deepEqual(found, [
    { text: "invoice" },
    { text: "U+202E", hidden: "right-to-left override" },
    { text: "fdp.exe" },
  ]);
});

test("every invisible character is shown, alone and in company", () => {
  for (const code of [
    0x00, 0x07, 0x08, 0x1b, 0x7f, 0x85, 0xad, 0x61c, 0x200b, 0x200d, 0x200f, 0x2028, 0x2066, 0x2069, 0x2060, 0x3164,
    0xfe00, 0xfeff, 0xe0041, 0xe0100, 0xe000,
  ]) {
    const one = String.fromCodePoint(code);
    const shown = visible(`a${one}b`);
    const name = `U+${code.toString(16).toUpperCase().padStart(4, "0")}`;
    assert.equal(shown, `a⟨${name}⟩b`);
  }
});

test("halves of pairs are shown, whole pairs are not taken apart", () => {
  assert.equal(visible("a\ud800b"), "a⟨U+D800⟩b");
  assert.equal(visible("𝔘"), "𝔘");
  assert.equal(line(`${"x".repeat(4)}😀rest`, 6), "xxxx…");
});

test("a line has no breaks", () => {
  assert.equal(line("one\n  two\tthree"), "one two three");
});
