// What recovery did and why: one sentence for all of it, and one for each time.

import type { JSX } from "preact";
import type { Note, Trace } from "../core/shapes";
import { Foreign } from "../parts/text";
import { clock, exact, iso } from "../text/times";
import { plural } from "../text/words";

export function Recovery({ trace, choose }: { trace: Trace; choose(step: string): void }): JSX.Element | null {
  const takeovers = trace.seams.filter((seam) => seam.kind === "takeover").length;
  if (trace.notes.length === 0) return null;
  return (
    <section class="recovery sheet" aria-label="What recovery did">
      <p>
        <b>{summary(trace, takeovers)}</b>
      </p>
      <details open={trace.notes.length <= 6}>
        <summary class="small dim">What recovery did, and why: {plural(trace.notes.length, "sentence")}</summary>
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

/** What the journal tells in one sentence: how often hands changed, and what became of calls that were cut off. */
function summary(trace: Trace, takeovers: number): string {
  const last = trace.seams.findLast((seam) => seam.kind === "takeover");
  const outcomes =
    last === undefined
      ? 0
      : trace.spans.filter((span) => span.end_at !== null && (span.end_seq ?? span.seq) < last.seq).length;
  const again = trace.spans.filter((span) => span.sent_at.length > 1).length;
  const adopted = trace.notes.filter((note) => note.text.includes("was not sent again")).length;
  const held = trace.notes.filter((note) => note.text.includes("was held for a person")).length;
  const parts = [
    takeovers > 0
      ? `Its worker was lost ${takeovers === 1 ? "once" : `${takeovers} times`}, and another took over`
      : "",
    takeovers === 0
      ? ""
      : outcomes > 0
        ? `${plural(outcomes, "recorded outcome was", "recorded outcomes were")} used instead of calling again`
        : "nothing had been recorded",
    again > 0 ? `${plural(again, "call")} sent again under the same key` : "",
    adopted > 0 ? `${plural(adopted, "call")} looked up and not sent again` : "",
    held > 0 ? `${plural(held, "call")} held for a person` : "",
  ];
  const said = parts.filter(Boolean).join("; ");
  return said ? `${said[0]?.toUpperCase()}${said.slice(1)}.` : "No worker was lost, and no call was repeated.";
}
