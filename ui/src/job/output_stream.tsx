// Output stream of a job, as it arrives. A call that is sent again streams its output again: the output of the superseded
// attempt is struck through.

import type { JSX } from "preact";
import { useEffect, useState } from "preact/hooks";
import { at } from "../core/api";
import { pollEverywhere } from "../core/polling";
import { type StreamState, listen } from "../core/sse";
import { Section } from "../parts/common";
import { Block, Foreign } from "../parts/text";
import { type Passage, heard } from "./passages";

/** Listens as long as it is shown. */
export function useOutputStream(jobId: string, over: boolean): { passages: readonly Passage[]; state: StreamState | null } {
  const [passages, setPassages] = useState<readonly Passage[]>([]);
  const [state, setState] = useState<StreamState | null>(null);
  useEffect(() => {
    setPassages([]);
    setState(null);
    // Words come faster than a screen draws: what came since the last frame is taken in together.
    let waiting: { event: string; data: string }[] = [];
    let frame = 0;
    const flush = (): void => {
      const taken = waiting;
      waiting = [];
      frame = 0;
      setPassages((before) => taken.reduce((all, one) => heard(all, one.event, one.data), before));
    };
    const stop = listen(at`/api/jobs/${jobId}/stream`, {
      told(told) {
        waiting.push({ event: told.event, data: told.data });
        frame ||= requestAnimationFrame(flush);
        if (told.event === "end" && !over) pollEverywhere();
      },
      isLast: (told) => told.event === "end",
      state: setState,
    });
    return () => {
      stop();
      cancelAnimationFrame(frame);
    };
  }, [jobId]);
  return { passages, state };
}

export function OutputStream({ jobId, over }: { jobId: string; over: boolean }): JSX.Element | null {
  const { passages, state } = useOutputStream(jobId, over);
  if (passages.length === 0) return null;
  return (
    <Section title="Output stream" aside={over ? "kept for a limited time" : <Streaming state={state} />}>
      <div class="said-all sheet">
        {passages.map((one) => (
          <PassageView key={`${one.step} ${one.stream} ${one.attempt}`} passage={one} />
        ))}
      </div>
    </Section>
  );
}

export const Streaming = ({ state }: { state: StreamState | null }): JSX.Element => (
  <span class={`light ${state === "live" ? "good" : state === "reconnecting" ? "warn" : ""}`}>
    <i aria-hidden="true" />
    {state ?? "listening"}
  </span>
);

export function PassageView({ passage, label = true }: { passage: Passage; label?: boolean }): JSX.Element {
  return (
    <div class={`passage ${passage.superseded ? "superseded" : ""}`}>
      {label && (
        <p class="small dim mono">
          <Foreign text={`${passage.step} · ${passage.stream}`} most={160} />
          {passage.attempt > 1 && ` · attempt ${passage.attempt}`}
        </p>
      )}
      {passage.superseded && (
        <p class="small warned">attempt {passage.attempt} was cut off: this output is superseded</p>
      )}
      {passage.missing > 0 && <p class="small dim">{passage.missing} chunks were dropped: they could not be stored</p>}
      <Block text={passage.text} class="words" />
    </div>
  );
}
