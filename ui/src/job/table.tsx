// The rows of the waterfall as a table, for screen readers and for copying.

import type { JSX } from "preact";
import { useMemo, useState } from "preact/hooks";
import type { Trace } from "../core/types";
import { Foreign } from "../parts/text";
import { clock, exact, iso, span as lengthOf } from "../text/times";
import { outcomeTone, plural, spaced } from "../text/words";
import { used } from "./row";
import { type Row, rowsOf } from "./rows";

const PAGE = 200;
const NOTHING: ReadonlySet<string> = new Set();

export function StepTable({
  trace,
  chosen,
  choose,
}: {
  trace: Trace;
  chosen: string | null;
  choose(row: Row): void;
}): JSX.Element {
  const rows = useMemo(() => rowsOf(trace, NOTHING), [trace]);
  const now = trace.end_at;
  const [from, setFrom] = useState(0);
  const start = Math.min(from, Math.max(rows.length - 1, 0));
  const shown = rows.slice(start, start + PAGE);
  return (
    <>
      <div class="table">
        <table class="steps">
          <caption class="sr">Calls and changes of the job, in order</caption>
          <thead>
            <tr>
              <th>started</th>
              <th>step</th>
              <th>kind</th>
              <th class="num">took</th>
              <th>outcome</th>
              <th>effect</th>
              <th>usage</th>
            </tr>
          </thead>
          <tbody>
            {shown.map((row) => (
              <tr key={row.id} class={row.id === chosen ? "here" : ""}>
                <td class="mono small">
                  <time dateTime={iso(row.start)} title={exact(row.start)}>
                    {clock(row.start)}
                  </time>
                </td>
                <td style={{ paddingLeft: `${12 + row.depth * 14}px` }}>
                  {row.kind === "scope" ? (
                    <b class="dim">
                      <Foreign text={row.name} most={120} />
                    </b>
                  ) : (
                    <button type="button" class="link" onClick={() => choose(row)}>
                      <Foreign text={row.name} most={160} />
                    </button>
                  )}
                </td>
                <td class="dim">
                  {row.span?.kind ?? (row.seam ? spaced(row.seam.kind) : plural(row.spans?.length ?? 0, "call"))}
                </td>
                <td class="num">
                  {row.kind === "seam" && row.end === null
                    ? ""
                    : `${row.span && !row.span.start_known ? "≤" : ""}${lengthOf((row.end ?? now) - row.start)}`}
                </td>
                <td class={row.span ? `outcome ${outcomeTone(row.span.outcome)}` : ""}>
                  {row.span ? spaced(row.span.outcome) : ""}
                  {row.span && row.span.sent_at.length > 1 ? ` ×${row.span.sent_at.length}` : ""}
                </td>
                <td class="dim">{row.span?.effect && row.span.kind !== "read" ? spaced(row.span.effect) : ""}</td>
                <td class="dim">{row.span ? used(row.span) : ""}</td>
              </tr>
            ))}
          </tbody>
        </table>
      </div>
      {rows.length > PAGE && (
        <div class="row end">
          <span class="dim small">
            rows {start + 1}–{start + shown.length} of {rows.length}
          </span>
          <button type="button" disabled={start === 0} onClick={() => setFrom(Math.max(start - PAGE, 0))}>
            Previous
          </button>
          <button type="button" disabled={start + PAGE >= rows.length} onClick={() => setFrom(start + PAGE)}>
            Next
          </button>
        </div>
      )}
    </>
  );
}
