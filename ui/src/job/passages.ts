// What a job has said, put together from the pieces of its stream.

import { pretty } from "../text/exact";

interface Chunk {
  stream: string;
  step_key: string;
  attempt: number;
  said: unknown;
  missing: number;
}

export interface Passage {
  step: string;
  stream: string;
  attempt: number;
  text: string;
  missing: number;
  /** Another attempt says this again. */
  superseded: boolean;
}

/** The passages so far, with one more event taken in. */
export function heard(passages: readonly Passage[], event: string, data: string): readonly Passage[] {
  const told = JSON.parse(data) as Chunk;
  if (event === "attempt_superseded") {
    return passages.map((one) =>
      one.step === told.step_key && one.attempt < told.attempt ? { ...one, superseded: true } : one,
    );
  }
  if (event !== "chunk") return passages;
  const text = typeof told.said === "string" ? told.said : `${pretty(told.said)}\n`;
  const nth = passages.findLastIndex(
    (one) => one.step === told.step_key && one.stream === told.stream && one.attempt === told.attempt,
  );
  const before = passages[nth];
  if (before === undefined)
    return [
      ...passages,
      {
        step: told.step_key,
        stream: told.stream,
        attempt: told.attempt,
        text,
        missing: told.missing,
        superseded: false,
      },
    ];
  return passages.with(nth, { ...before, text: before.text + text, missing: before.missing + told.missing });
}
