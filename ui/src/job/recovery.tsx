// Recovery: a summary in one sentence, and one note for each action.

import type { JSX } from "preact";
import type { Note, Trace } from "../core/types";
import { Foreign } from "../parts/text";
import { clock, exact, iso } from "../text/times";
import { plural } from "../text/words";

export function Recovery({ trace, choose }: { trace: Trace; choose(step: string): void }): JSX.Element | null {
  const takeovers = trace.seams.filter((seam) => seam.kind === "takeover").length;
  if (trace.notes.length === 0) return null;
  return (
    <section class="recovery sheet" aria-label="Recovery">
      <p>
        <b>{summary(trace, takeovers)}</b>
      </p>
      <details open={trace.notes.length <= 6}>
        <summary class="small dim">{plural(trace.notes.length, "note")} on recovery</summary>
        <ol>
          {trace.notes.map((note) => (
            <li key={`${note.seq} ${note.text}`}>
              <time class="dim clock" dateTime={iso(note.at)} title={exact(note.at)}>
                {clock(note.at)}
              </time>
              {note.step_key ? <Step note={note} choose={choose} /> : <Foreign text={note.text} most={600} />}
            </li>
          ))}
        </ol>
      </details>
    </section>
  );
}

function Step({ note, choose }: { note: Note; choose(step: string): void }): JSX.Element {
  return (
    <button type="button" class="link" onClick={() => choose(note.step_key as string)}>
      <Foreign text={note.text} most={600} />
    </button>
  );
}

const ATTEMPT_ENDS: ReadonlySet<string> = new Set(["requeued", "dead_letter"]);

/** The journal in one sentence: lost workers, failed attempts, and calls that were repeated, looked up or held. */
function summary(trace: Trace, takeovers: number): string {
  const last = trace.seams.findLast((seam) => seam.kind === "takeover");
  const outcomes =
    last === undefined
      ? 0
      : trace.spans.filter((span) => span.end_at !== null && (span.end_seq ?? span.seq) < last.seq).length;
  const resent = trace.spans.filter((span) => span.kind === "effect" && span.sent_at.length > 1).length;
  const retried = trace.spans.filter((span) => span.kind === "model" && span.sent_at.length > 1).length;
  const rerun = trace.spans.filter((span) => span.generation > 0).length;
  const failed = trace.seams.filter((seam) => ATTEMPT_ENDS.has(seam.kind) && Boolean(seam.error)).length;
  const adopted = trace.notes.filter((note) => note.text.includes("was not sent again")).length;
  const held = trace.notes.filter((note) => note.text.startsWith("Outcome unknown")).length;
  const parts = [
    takeovers > 0
      ? `Its worker died ${takeovers === 1 ? "once" : `${takeovers} times`}, and another took over`
      : "",
    takeovers === 0
      ? ""
      : outcomes > 0
        ? `${plural(outcomes, "recorded outcome was", "recorded outcomes were")} replayed, not called again`
        : "no result had been recorded",
    failed > 0 ? `${plural(failed, "attempt")} failed` : "",
    rerun > 0 ? `${plural(rerun, "call")} made again` : "",
    resent > 0 ? `${plural(resent, "call")} sent again under the same idempotency key` : "",
    retried > 0 ? `${plural(retried, "model request")} retried` : "",
    adopted > 0 ? `${plural(adopted, "call")} looked up and not sent again` : "",
    held > 0 ? `${plural(held, "call")} held for a person` : "",
  ];
  const said = parts.filter(Boolean).join("; ");
  return said ? `${said[0]?.toUpperCase()}${said.slice(1)}.` : "No worker died, and no call was repeated.";
}
