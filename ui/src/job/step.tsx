// The selected step: request, response, cost, and its side-effect class.

import type { JSX } from "preact";
import { at } from "../core/api";
import { usePoll } from "../core/polling";
import type { Job, JournalEvent, Seam, Span } from "../core/types";
import { Copy, Facts, JobLink, Pill, Who } from "../parts/common";
import { Foreign, Named } from "../parts/text";
import { Traceback } from "../parts/traceback";
import { clock, exact, iso, span as lengthOf } from "../text/times";
import { tracebackText } from "../text/traceback";
import { EFFECTS, outcomeTone, spaced } from "../text/words";
import { type ForkPoint, forkFrom } from "./fork";
import { Ledger, type LedgerRow } from "./ledger";
import { Messages, type Request } from "./messages";
import { fenceOf } from "./painter";
import { used } from "./row";

/** One step with its bodies, as the API tells it. */
interface WholeStep {
  span: Span;
  args_digest: string;
  ledger: LedgerRow | null;
  request: Request | null;
  events: readonly JournalEvent[];
}

export function StepPane({
  jobId,
  job,
  span,
  seam,
  past,
}: {
  jobId: string;
  job: Job | null;
  span: Span | null;
  seam: Seam | null;
  past: boolean;
}): JSX.Element {
  return (
    <aside class="step sheet" aria-label="Selected step">
      {span ? (
        <Step
          key={`${span.kind} ${span.step_key} ${span.generation} ${span.outcome} ${span.attempt}`}
          jobId={jobId}
          job={job}
          span={span}
          past={past}
        />
      ) : seam ? (
        <Moment job={job} seam={seam} />
      ) : (
        <Hint />
      )}
    </aside>
  );
}

const Hint = (): JSX.Element => (
  <p class="dim">
    Select a row with a click, or with <kbd>j</kbd> and <kbd>k</kbd>, to see its arguments and result. <kbd>?</kbd> shows
    all keyboard shortcuts.
  </p>
);

function Step({ jobId, job, span, past }: { jobId: string; job: Job | null; span: Span; past: boolean }): JSX.Element {
  const isNode = span.kind === "node";
  const whole = usePoll<WholeStep>(
    isNode ? null : at`/api/jobs/${jobId}/steps/${span.step_key}?generation=${span.generation}`,
    null,
  );
  const told =
    past || whole.value === null
      ? span
      : { ...span, args: whole.value.span.args, result: whole.value.span.result, error: whole.value.span.error };
  return (
    <>
      <header>
        <h2>
          <Foreign text={span.name} most={160} />
        </h2>
        <Pill tone={outcomeTone(span.outcome)}>
          {spaced(span.outcome)}
          {span.sent_at.length > 1 ? `, sent ${span.sent_at.length} times` : ""}
        </Pill>
      </header>
      {span.notes.map((note) => (
        <p key={note} class="note">
          <Foreign text={note} most={600} />
        </p>
      ))}
      <Facts
        facts={[
          ["kind", span.kind],
          ["effect", span.effect && <span title={EFFECTS[span.effect]}>{spaced(span.effect)}</span>],
          [
            "took",
            `${span.start_known ? "" : "at most "}${span.end_at === null ? "open" : lengthOf(span.end_at - span.start_at)}`,
          ],
          ["usage", used(span)],
          [
            "started",
            <time dateTime={iso(span.start_at)} title={exact(span.start_at)}>
              {span.start_known ? "" : "after "}
              {clock(span.start_at)}
            </time>,
          ],
          ["attempt", span.attempt > 1 && String(span.attempt)],
          ["generation", span.generation > 0 && String(span.generation)],
          ["worker", span.worker && <Who worker={span.worker} />],
          ["event", `${span.seq}${span.end_seq && span.end_seq !== span.seq ? `–${span.end_seq}` : ""}`],
          ["child", span.kind === "child" && typeof told.args === "string" && <JobLink id={told.args} />],
          [
            "step key",
            <code class="small">
              <Foreign text={span.step_key} most={400} /> <Copy text={span.step_key} what="step key" />
            </code>,
          ],
          [
            "idempotency key",
            span.key && (
              <code class="small">
                <Foreign text={span.key} most={120} /> <Copy text={span.key} what="key" />
              </code>
            ),
          ],
        ]}
      />
      {span.effect && <p class="small dim">{EFFECTS[span.effect]}</p>}
      {span.sent_at.length > 1 && (
        <p class="small dim">Sent at {span.sent_at.map((one) => clock(one)).join(", ")}, each time under the same key.</p>
      )}
      {whole.value?.request && !past && <Messages request={whole.value.request} />}
      {told.args !== null && told.args !== undefined && span.kind !== "child" && (
        <Named
          name="Arguments"
          value={told.args}
          {...(whole.value?.args_digest ? { hint: `digest ${whole.value.args_digest.slice(0, 16)}…` } : {})}
        />
      )}
      {told.error !== null && told.error !== undefined && (
        <>
          <Traceback error={told.error} />
          <Named name="Error" value={told.error} open={!tracebackText(told.error)} />
        </>
      )}
      {told.result !== null && told.result !== undefined && (
        <Named name={span.kind === "model" ? "Response" : "Result"} value={told.result} />
      )}
      {whole.value?.ledger && !past && <Ledger row={whole.value.ledger} />}
      {whole.value?.events && !past && <Named name="Journal events" value={whole.value.events} open={false} />}
      {whole.problem && whole.problem.status !== 404 && (
        <p class="small dim">
          <Foreign text={whole.problem.detail} most={300} />
        </p>
      )}
      {!isNode && job && (
        <div class="row">
          <button type="button" onClick={() => void forkFrom(job, { step: span.step_key, name: span.name })}>
            Fork from here
          </button>
          {(span.kind === "read" || span.kind === "model") && span.end_seq !== null && whole.value && !past && (
            <button
              type="button"
              title="A new job that continues after this step with another result"
              onClick={() => void forkFrom(job, withAnother(span, told.result))}
            >
              Fork with another {span.kind === "model" ? "answer" : "result"}
            </button>
          )}
        </div>
      )}
    </>
  );
}

const withAnother = (span: Span, result: unknown): ForkPoint => ({
  seq: (span.end_seq ?? span.seq) + 1,
  name: span.name,
  edit: { step: span.step_key, what: span.kind === "model" ? "answer" : "result", result },
});

function Moment({ job, seam }: { job: Job | null; seam: Seam }): JSX.Element {
  return (
    <>
      <header>
        <h2>
          <Foreign text={seam.text} most={300} />
        </h2>
        <Pill
          tone={
            seam.kind === "takeover" ? "warn" : ["dead_letter", "parked", "stalled"].includes(seam.kind) ? "bad" : "plain"
          }
        >
          {spaced(seam.kind)}
        </Pill>
      </header>
      <Facts
        facts={[
          [
            "at",
            <time dateTime={iso(seam.at)} title={exact(seam.at)}>
              {clock(seam.at)}
            </time>,
          ],
          ["waited", seam.until !== null && seam.until > seam.at && lengthOf(seam.until - seam.at)],
          ["worker", seam.worker && <Who worker={seam.worker} />],
          ["fence", <span title={String(seam.fence)}>{fenceOf(seam.fence)}</span>],
          ["event", String(seam.seq)],
        ]}
      />
      <Traceback error={seam.error} />
      {seam.kind === "takeover" && (
        <p class="dim small">
          From here on only the holder of this fencing token can write: the store rejects the previous worker.
        </p>
      )}
      {job && seam.seq > 1 && (
        <div class="row">
          <button type="button" onClick={() => void forkFrom(job, { seq: seam.seq, name: `event ${seam.seq}` })}>
            Fork from here
          </button>
        </div>
      )}
    </>
  );
}
