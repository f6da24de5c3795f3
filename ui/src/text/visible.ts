// Foreign text, made honest. What a model, a tool or a stranger wrote may hold characters that cannot be seen or that turn
// the order of others around; an approver must see that they are there. Everything is text: nothing here makes markup.

export interface Part {
  text: string;
  /** Set when the part stands for a character that could not be seen: what it is. */
  hidden?: string;
}

const NAMES: Record<number, string> = {
  0x00ad: "soft hyphen",
  0x034f: "grapheme joiner",
  0x061c: "Arabic letter mark",
  0x115f: "Hangul filler",
  0x1160: "Hangul filler",
  0x200b: "zero width space",
  0x200c: "zero width non-joiner",
  0x200d: "zero width joiner",
  0x200e: "left-to-right mark",
  0x200f: "right-to-left mark",
  0x2028: "line separator",
  0x2029: "paragraph separator",
  0x202a: "left-to-right embedding",
  0x202b: "right-to-left embedding",
  0x202c: "pop directional formatting",
  0x202d: "left-to-right override",
  0x202e: "right-to-left override",
  0x2060: "word joiner",
  0x2066: "left-to-right isolate",
  0x2067: "right-to-left isolate",
  0x2068: "first strong isolate",
  0x2069: "pop directional isolate",
  0x2800: "blank Braille pattern",
  0x3164: "Hangul filler",
  0xfeff: "byte order mark",
  0xffa0: "Hangul filler",
  0x1b: "escape",
  0x00: "null",
  0x08: "backspace",
  0x0d: "carriage return",
  0x7f: "delete",
};

// Controls but tab and newline; format and default-ignorable characters; halves of pairs; private use, which draws nothing.
const HIDDEN =
  /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u2028-\u202e\u2060-\u206f\u2800\u3164\ufe00-\ufe0d\ufeff\uffa0\ufff0-\ufffb\u{1bca0}-\u{1bca3}\u{1d173}-\u{1d17a}\u{e0000}-\u{e0fff}\ud800-\udfff\p{Co}]/gu;
const PICTURE = /\p{Extended_Pictographic}\ufe0f?\p{Emoji_Modifier}?$/u;
const PICTURE_AHEAD = /^\p{Extended_Pictographic}/u;

/** The text in parts: what can be read as it is, and what cannot be seen by its name. */
export function parts(text: string): Part[] {
  const found: Part[] = [];
  let from = 0;
  for (const match of text.matchAll(HIDDEN)) {
    const code = match[0].codePointAt(0) as number;
    const at = match.index;
    const after = at + match[0].length;
    // A joiner inside a family emoji is what it is for.
    if (
      code === 0x200d &&
      PICTURE.test(text.slice(Math.max(at - 8, 0), at)) &&
      PICTURE_AHEAD.test(text.slice(after, after + 2))
    )
      continue;
    if (at > from) found.push({ text: text.slice(from, at) });
    found.push({
      text: `U+${code.toString(16).toUpperCase().padStart(4, "0")}`,
      hidden: NAMES[code] ?? "invisible character",
    });
    from = after;
  }
  if (from < text.length) found.push({ text: text.slice(from) });
  return found;
}

/** The same in one string, for a canvas or a title: `⟨U+202E⟩`. */
export function visible(text: string): string {
  return parts(text)
    .map((part) => (part.hidden === undefined ? part.text : `⟨${part.text}⟩`))
    .join("");
}

/** On one line, in at most so many characters; what cannot be seen is still in it. */
export function shortened(text: string, most: number): string {
  const cut = text.length > most ? `${text.slice(0, cutAt(text, most - 1))}…` : text;
  return cut.replace(/\s*[\n\t]\s*/g, " ");
}

/** The same with what cannot be seen written out. */
export const line = (text: string, most = 120): string => visible(shortened(text, most));

function cutAt(text: string, place: number): number {
  const code = text.charCodeAt(place - 1);
  return code >= 0xd800 && code < 0xdc00 ? place - 1 : place; // not through the middle of a pair
}
