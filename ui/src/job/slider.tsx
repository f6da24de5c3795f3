// The job as it was at any event of its journal.

import type { JSX } from "preact";
import { useRef } from "preact/hooks";
import { useKeys } from "../core/keys";
import { ask } from "../core/router";
import { State } from "../parts/common";
import { clock, exact, iso } from "../text/times";
import { count } from "../text/words";

interface SliderProps {
  seq: number;
  most: number;
  past: boolean;
  at: number;
  status: string;
}

export function Slider({ seq, most, past, at, status }: SliderProps): JSX.Element {
  const waiting = useRef(0);
  const set = (next: number): void => {
    cancelAnimationFrame(waiting.current);
    waiting.current = requestAnimationFrame(() =>
      ask({ seq: next >= most ? null : Math.max(next, 1) }, { replace: true }),
    );
  };
  useKeys([
    { keys: "[", what: "previous event", do: () => set(seq - 1) },
    { keys: "]", what: "next event", do: () => set(seq + 1) },
    { keys: "Escape", what: "back to now", do: () => set(most) },
  ]);
  return (
    <div class={`slider row ${past ? "past" : ""}`}>
      <label for="seq">as of event</label>
      <input
        id="seq"
        type="range"
        min={1}
        max={most}
        value={seq}
        aria-valuetext={`event ${seq} of ${most}`}
        onInput={(event) => set(Number(event.currentTarget.value))}
      />
      <span class="mono small">
        {count(seq)}
        <span class="dim"> of {count(most)}</span>
      </span>
      {past && (
        <>
          <State status={status} />
          <time class="small dim" dateTime={iso(at)} title={exact(at)}>
            {clock(at)}
          </time>
          <button type="button" class="quiet" onClick={() => set(most)}>
            Back to now
          </button>
        </>
      )}
    </div>
  );
}
