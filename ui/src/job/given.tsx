// What the job was given, and what came of it.

import type { JSX } from "preact";
import type { Job } from "../core/shapes";
import { Section } from "../parts/bits";
import { Value } from "../parts/text";
import { isOver } from "../text/words";

export function Given({ job }: { job: Job }): JSX.Element {
  return (
    <div class="two">
      <Section title="Input">
        <Value value={job.input} />
      </Section>
      {job.error !== null && job.error !== undefined ? (
        <Section title="Error">
          <Value value={job.error} />
        </Section>
      ) : (
        <Section title="Output">
          {isOver(job.status) ? <Value value={job.output} /> : <p class="dim">It is not over yet.</p>}
        </Section>
      )}
    </div>
  );
}
