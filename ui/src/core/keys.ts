// The keyboard. A page says which keys mean what, and the help shows exactly those.

import { useEffect, useRef } from "preact/hooks";
import { store } from "./store";

export interface Shortcut {
  /** `j`, `/`, `Escape`, `g h` for one after the other, `Shift+X`. */
  keys: string;
  what: string;
  do(): void;
}

const layers = store<readonly (readonly Shortcut[])[]>([]);
export const shortcuts = layers;
const CHORD_MS = 1200;

let first = "";
let firstAt = 0;

function isTyping(target: EventTarget | null): boolean {
  if (!(target instanceof HTMLElement)) return false;
  return target.isContentEditable || /^(INPUT|TEXTAREA|SELECT)$/.test(target.tagName);
}

const PRESSES = new Set(["Enter", " "]);

function isPressed(target: EventTarget | null): boolean {
  return target instanceof Element && target.closest("a[href], button, summary, [role=button], [role=tab]") !== null;
}

function named(event: KeyboardEvent): string {
  return event.shiftKey && event.key.length > 1 ? `Shift+${event.key}` : event.key;
}

export function listenForKeys(): void {
  addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || event.defaultPrevented) return;
    if (document.querySelector("dialog[open]")) return; // it has keys of its own
    const typing = isTyping(event.target);
    const key = named(event);
    if (PRESSES.has(key) && isPressed(event.target)) return; // a button that has the focus is pressed
    if (typing && key !== "Escape") return;
    if (typing) {
      (event.target as HTMLElement).blur();
      return;
    }
    const chord = first && Date.now() - firstAt < CHORD_MS ? `${first} ${key}` : "";
    first = "";
    const found = meant(layers.get(), chord, key);
    if (found) found.do();
    else if (!chord && layers.get().some((layer) => layer.some((one) => one.keys.startsWith(`${key} `)))) {
      first = key;
      firstAt = Date.now();
    } else return;
    event.preventDefault();
  });
}

/** What the keys mean: two that were pressed one after the other first, whichever part they belong to, since the second of
 * them may mean something by itself on the page that is shown. */
export function meant(
  given: readonly (readonly Shortcut[])[],
  chord: string,
  key: string,
): Shortcut | undefined {
  const all = [...given].reverse().flat();
  return (chord ? all.find((one) => one.keys === chord) : undefined) ?? all.find((one) => one.keys === key);
}

/** These keys hold as long as the part is shown; later parts come first. */
export function useKeys(given: readonly Shortcut[]): void {
  const now = useRef(given);
  now.current = given;
  const names = given.map((one) => `${one.keys}:${one.what}`).join("\n");
  useEffect(() => {
    const layer = now.current.map((one, nth) => ({ keys: one.keys, what: one.what, do: () => now.current[nth]?.do() }));
    layers.set([...layers.get(), layer]);
    return () => layers.set(layers.get().filter((other) => other !== layer));
  }, [names]);
}
