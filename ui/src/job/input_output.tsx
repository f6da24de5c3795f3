// What the job was given, and what came of it.

import type { JSX } from "preact";
import type { Job } from "../core/types";
import { Section } from "../parts/common";
import { Named, Value } from "../parts/text";
import { Traceback } from "../parts/traceback";
import { lastError, tracebackText } from "../text/traceback";
import { isOver } from "../text/words";

export function Given({ job }: { job: Job }): JSX.Element {
  return (
    <div class="two">
      <Section title="Input">
        <Value value={job.input} />
      </Section>
      {job.error !== null && job.error !== undefined ? (
        <Section title="Error">
          <Failure error={job.error} />
        </Section>
      ) : (
        <Section title="Output">
          {isOver(job.status) ? <Value value={job.output} /> : <p class="dim">The job has not ended yet.</p>}
        </Section>
      )}
    </div>
  );
}

/** The traceback of the last failure, and everything that is recorded of it a click away. */
function Failure({ error }: { error: unknown }): JSX.Element {
  const last = lastError(error);
  if (!tracebackText(last)) return <Value value={error} />;
  return (
    <>
      <Traceback error={last} />
      <Named name="Full record" value={error} open={false} />
    </>
  );
}
