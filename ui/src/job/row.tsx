// Labels left and right of the bars.

import type { JSX } from "preact";
import type { Span } from "../core/types";
import { Foreign } from "../parts/text";
import { clock, span as lengthOf } from "../text/times";
import { count, money, outcomeTone, plural, spaced } from "../text/words";
import { fenceOf } from "./painter";
import type { Row } from "./rows";

const MARKS: Record<string, readonly [string, string]> = {
  read: ["R", "read"],
  effect: ["E", "effect"],
  model: ["M", "model"],
  sleep: ["Z", "sleep"],
  approval: ["?", "approval or question"],
  child: ["J", "child job"],
  node: ["N", "plan node"],
};

const INDENT = 14;

export function Label({ row, fold }: { row: Row; fold(): void }): JSX.Element {
  const mark = row.span && MARKS[row.span.kind];
  return (
    <span class="wf-label" style={{ paddingLeft: `${8 + row.depth * INDENT}px` }}>
      {row.kind === "scope" && (
        <button
          type="button"
          class="fold"
          tabIndex={-1}
          aria-label={row.folded ? "Unfold" : "Fold"}
          onClick={(event) => {
            event.stopPropagation();
            fold();
          }}
        >
          {row.folded ? "▸" : "▾"}
        </button>
      )}
      {mark && (
        <i class={`mark ${row.span?.kind}`} title={mark[1]}>
          {mark[0]}
        </i>
      )}
      {row.seam && <span class="dim clock">{clock(row.start)}</span>}
      <Foreign text={row.name} most={120} class="name" />
      {row.span && row.span.generation > 0 && <span class="dim"> (run {row.span.generation + 1})</span>}
    </span>
  );
}

export function Tail({ row, now }: { row: Row; now: number }): JSX.Element {
  if (row.span) {
    const { span } = row;
    const took = lengthOf((span.end_at ?? now) - span.start_at);
    return (
      <span class="wf-tail">
        <span class="took">{span.start_known ? took : `≤${took}`}</span>
        <span class={`outcome ${outcomeTone(span.outcome)}`}>
          {spaced(span.outcome)}
          {span.sent_at.length > 1 ? ` ×${span.sent_at.length}` : ""}
        </span>
      </span>
    );
  }
  if (row.seam) {
    const rests = row.end !== null && row.end > row.start ? lengthOf(row.end - row.start) : "";
    return (
      <span class="wf-tail dim">
        <span class="took">{rests}</span>
        <span>{row.seam.worker ? `fence ${fenceOf(row.seam.fence)}` : ""}</span>
      </span>
    );
  }
  return (
    <span class="wf-tail dim">
      <span class="took">{lengthOf((row.end ?? now) - row.start)}</span>
      <span>{plural(row.spans?.length ?? 0, "call")}</span>
    </span>
  );
}

/** Tokens and cost of a model's answer. */
export function used(span: Span): string {
  const { usage } = span;
  if (!usage) return "";
  if (usage.cached) return "from the response cache";
  const tokens = `${count(usage.input ?? 0)} + ${count(usage.output ?? 0)} tokens`;
  return typeof usage.usd_micros === "number" ? `${tokens}, ${money(usage.usd_micros)}` : `${tokens}, cost unknown`;
}
