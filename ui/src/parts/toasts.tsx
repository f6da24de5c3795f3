// What was done, or was not, told in a corner and read aloud.

import type { JSX } from "preact";
import { store, useStore } from "../core/store";
import type { Problem } from "../core/api";
import { visible } from "../text/visible";

interface Toast {
  id: number;
  text: string;
  hint: string;
  tone: "good" | "warn" | "bad";
}

const toasts = store<readonly Toast[]>([]);
let nth = 0;

const drop = (id: number): void => toasts.set(toasts.get().filter((one) => one.id !== id));

export function say(text: string, tone: Toast["tone"] = "good", hint = ""): void {
  nth += 1;
  const id = nth;
  toasts.set([...toasts.get().slice(-3), { id, text, hint, tone }]);
  // What went wrong stays until it has been read.
  if (tone !== "bad") setTimeout(() => drop(id), 6000);
}

export const sayProblem = (problem: Problem): void => say(problem.detail, "bad", problem.hint);

export function Toasts(): JSX.Element {
  const shown = useStore(toasts);
  return (
    <div class="toasts" role="status" aria-live="polite">
      {shown.map((one) => (
        <div key={one.id} class={`toast ${one.tone}`}>
          <div>
            {visible(one.text)}
            {one.hint && <p class="hint">{visible(one.hint)}</p>}
          </div>
          <button type="button" class="icon" aria-label="Dismiss" onClick={() => drop(one.id)}>
            ×
          </button>
        </div>
      ))}
    </div>
  );
}
