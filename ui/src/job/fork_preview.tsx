// Preview of a fork: results that it shares, and calls that it makes.

import type { JSX } from "preact";
import { Foreign } from "../parts/text";
import { plural, spaced } from "../text/words";

interface ForkedStep {
  step_key: string;
  generation: number;
  kind: string;
  name: string;
  effect: string;
}

export interface Preview {
  before: number;
  taken: readonly ForkedStep[];
  anew: readonly ForkedStep[];
  refused?: string | null;
  hint?: string | null;
}

const SHOWN_MAX = 12;

export function ForkPreview({
  preview,
  from,
  edited = "",
}: {
  preview: Preview;
  from: string;
  /** The results that the person who forks replaces, if any. */
  edited?: string;
}): JSX.Element {
  const effects = preview.anew.filter((one) => one.effect && one.effect !== "read_only").length;
  return (
    <>
      <p>
        {edited ? (
          <>
            A new job shares the history up to <Foreign text={from} most={60} />, and continues with the {edited} that
            you enter.{" "}
          </>
        ) : (
          <>
            A new job shares the history before <Foreign text={from} most={60} />.{" "}
          </>
        )}
        {plural(preview.taken.length, "recorded result is", "recorded results are")} reused without a call; {plural(preview.anew.length, "call")} of this job would be made again
        {effects > 0 && <b>, {plural(effects, "side effect")} among them, under new idempotency keys</b>}. This job does not
        change.
      </p>
      <Steps title="reused" steps={preview.taken} />
      <Steps title="made again, if the code still makes them" steps={preview.anew} />
    </>
  );
}

function Steps({ title, steps }: { title: string; steps: readonly ForkedStep[] }): JSX.Element | null {
  if (steps.length === 0) return null;
  return (
    <details open={steps.length <= 6}>
      <summary class="small dim">
        {title}: {steps.length}
      </summary>
      <ul class="small">
        {steps.slice(0, SHOWN_MAX).map((one) => (
          <li key={`${one.kind} ${one.step_key} ${one.generation}`}>
            <Foreign text={one.name} most={80} />{" "}
            <span class="dim">
              {one.kind}
              {one.effect && one.kind !== "read" ? `, ${spaced(one.effect)}` : ""}
            </span>
          </li>
        ))}
        {steps.length > SHOWN_MAX && <li class="dim">and {steps.length - SHOWN_MAX} more</li>}
      </ul>
    </details>
  );
}
