// The job as it was when its journal ended at some event.

import type { Span, Trace } from "../core/types";

const STATUS: Record<string, string> = {
  created: "pending",
  claimed: "running",
  takeover: "running",
  released: "pending",
  requeued: "pending",
  waiting: "waiting",
  parked: "waiting",
  stalled: "waiting",
  dead_letter: "waiting",
  restored: "waiting",
};

/** The instant of an event, as far as spans and seams tell; events between them fall on the last one before. */
export function instantOf(trace: Trace, seq: number): number {
  let at = trace.start_at;
  for (const seam of trace.seams) if (seam.seq <= seq) at = Math.max(at, seam.at);
  for (const span of trace.spans) {
    // A read is written when it is over: its event is its end.
    if (span.seq <= seq) at = Math.max(at, span.start_known ? span.start_at : (span.end_at ?? span.start_at));
    if (span.end_seq !== null && span.end_seq !== undefined && span.end_seq <= seq)
      at = Math.max(at, span.end_at ?? at);
  }
  return at;
}

/** Only what is known up to this event. Calls without an outcome by then are open. */
export function asOf(trace: Trace, seq: number): Trace {
  const at = instantOf(trace, seq);
  const seams = trace.seams
    .filter((seam) => seam.seq <= seq)
    .map((seam) => (seam.until !== null && seam.until > at ? { ...seam, until: null } : seam));
  const last = seams.filter((seam) => STATUS[seam.kind] || seam.kind === "ended").at(-1);
  const over = last?.kind === "ended";
  const spans = trace.spans
    .filter((span) => span.seq <= seq)
    .map((span) => (isOverBy(span, seq, at) ? span : opened(span, at)));
  const outcomes = new Map(spans.filter((span) => span.kind === "node").map((span) => [span.name, span.outcome]));
  return {
    ...trace,
    end_at: at,
    over,
    status: over ? trace.status : (STATUS[last?.kind ?? "created"] ?? "pending"),
    spans,
    seams,
    notes: trace.notes.filter((note) => note.seq <= seq),
    plans: trace.plans
      .filter((plan) => plan.at <= at)
      .map((plan) => ({
        ...plan,
        nodes: plan.nodes.map((node) => ({
          ...node,
          state: outcomes.get(node.name) ?? (over ? "not reached" : "to come"),
        })),
      })),
  };
}

function isOverBy(span: Span, seq: number, at: number): boolean {
  if (span.end_at === null) return true; // open then as now
  return span.end_seq === null || span.end_seq === undefined ? span.end_at <= at : span.end_seq <= seq;
}

function opened(span: Span, at: number): Span {
  const sent = span.sent_at.filter((one) => one <= at);
  return {
    ...span,
    end_at: null,
    end_seq: null,
    outcome: "open",
    result: null,
    error: null,
    usage: null,
    sent_at: sent,
    attempt: Math.max(sent.length, 1),
    notes: [],
  };
}
