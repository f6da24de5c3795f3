// What a fork would take over, and what it would do anew.

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
  /** What of it is written by whoever forks, if something is. */
  edited?: string;
}): JSX.Element {
  const effects = preview.anew.filter((one) => one.effect && one.effect !== "read_only").length;
  return (
    <>
      <p>
        {edited ? (
          <>
            A new job takes over everything up to <Foreign text={from} most={60} />, and goes on with the {edited} that
            you write.{" "}
          </>
        ) : (
          <>
            A new job takes over everything that was recorded before <Foreign text={from} most={60} />.{" "}
          </>
        )}
        {plural(preview.taken.length, "recorded result is", "recorded results are")} reused, without a call; {plural(preview.anew.length, "call")} that this job made would be made anew
        {effects > 0 && <b>, {plural(effects, "effect")} among them, under keys of their own</b>}. This job is not
        touched.
      </p>
      <Steps title="reused" steps={preview.taken} />
      <Steps title="anew, if the code still asks for it" steps={preview.anew} />
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
