// Above the waterfall: what the marks mean, and how close one looks.

import type { JSX } from "preact";
import { span as lengthOf } from "../text/times";
import { plural } from "../text/words";
import type { Axis } from "./axis";
import type { Window } from "./painter";

interface ToolbarProps {
  axis: Axis;
  window: Window;
  toScale: boolean;
  setToScale(on: boolean): void;
  zoom(by: number): void;
  pan(by: number): void;
  all(): void;
  scopes: number;
  foldAll(on: boolean): void;
  rows: number;
}

const LEGEND = [
  ["read", "read"],
  ["model", "model"],
  ["effect", "effect"],
  ["child", "child or node"],
  ["wait", "wait"],
  ["seam", "takeover"],
] as const;

export function Toolbar({
  axis,
  window,
  toScale,
  setToScale,
  zoom,
  pan,
  all,
  scopes,
  foldAll,
  rows,
}: ToolbarProps): JSX.Element {
  const zoomed = window.from > 0 || window.to < 1;
  const shown = axis.instantAt(window.to) - axis.instantAt(window.from);
  return (
    <div class="wf-tools">
      <ul class="legend" aria-label="Legend">
        {LEGEND.map(([kind, word]) => (
          <li key={kind}>
            <i class={kind} aria-hidden="true" />
            {word}
          </li>
        ))}
      </ul>
      <div class="row">
        <span class="dim small" aria-live="polite">
          {plural(rows, "row")}, {lengthOf(shown)}
          {axis.squeezed && (
            <b title="Long waits are drawn shorter than they were, so that short calls stay visible">
              {" "}
              · long waits are shortened
            </b>
          )}
        </span>
        {axis.uneven && (
          <label class="row small">
            <input type="checkbox" checked={toScale} onChange={(event) => setToScale(event.currentTarget.checked)} />
            to scale
          </label>
        )}
        {scopes > 1 && (
          <>
            <button type="button" class="quiet" onClick={() => foldAll(true)}>
              Fold
            </button>
            <button type="button" class="quiet" onClick={() => foldAll(false)}>
              Unfold
            </button>
          </>
        )}
        <button type="button" class="icon" aria-label="Zoom in" title="Zoom in ( + )" onClick={() => zoom(0.6)}>
          +
        </button>
        <button
          type="button"
          class="icon"
          aria-label="Zoom out"
          title="Zoom out ( - )"
          onClick={() => zoom(1 / 0.6)}
        >
          −
        </button>
        {zoomed && (
          <>
            <button type="button" class="icon" aria-label="Earlier" title="Earlier ( h )" onClick={() => pan(-0.5)}>
              ‹
            </button>
            <button type="button" class="icon" aria-label="Later" title="Later ( l )" onClick={() => pan(0.5)}>
              ›
            </button>
          </>
        )}
        <button type="button" class="quiet" title="Show all ( 0 )" onClick={all} disabled={!zoomed}>
          All
        </button>
      </div>
    </div>
  );
}
