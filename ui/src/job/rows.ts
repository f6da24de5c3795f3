// A trace as rows: calls under the scopes they were made in, changes of worker and status between them.
//
// A task that job code starts has a scope of its own, so parallel branches are scopes side by side: each is a lane that can be
// folded. A folded lane keeps the bars of its calls on one row.

import type { Seam, Span, Trace } from "../core/types";

export interface Row {
  /** Stable while the job grows: what is chosen and folded is named by it. */
  id: string;
  kind: "scope" | "span" | "seam";
  depth: number;
  name: string;
  start: number;
  end: number | null;
  span?: Span;
  seam?: Seam;
  /** Of a scope: the calls in it, at any depth. */
  spans?: readonly Span[];
  folded?: boolean;
}

interface Scope {
  name: string;
  id: string;
  spans: Span[];
  scopes: Map<string, Scope>;
  all: Span[];
  start: number;
  end: number | null;
  /** Its first event. */
  seq: number;
}

export const spanId = (span: Span): string =>
  `${span.kind}:${span.step_key}${span.generation ? `@${span.generation}` : ""}`;
export const seamId = (seam: Seam): string => `seam:${seam.seq}`;
const SEPARATOR = "/";
/** Scopes that Holdfast makes for the tool calls of a model: each holds one call, so they get no rows. */
const TOOL_SCOPE = /^(run_tools#\d+|call-\d+#\d+)$/;
const namedScopes = (span: Span): readonly string[] => span.scope.filter((name) => !TOOL_SCOPE.test(name));

function scopeOf(name: string, id: string): Scope {
  return {
    name,
    id,
    spans: [],
    scopes: new Map(),
    all: [],
    start: Number.POSITIVE_INFINITY,
    end: 0,
    seq: Number.POSITIVE_INFINITY,
  };
}

function treeOf(spans: readonly Span[]): Scope {
  const root = scopeOf("", "");
  for (const span of spans) {
    let scope = root;
    for (const name of namedScopes(span)) {
      let next = scope.scopes.get(name);
      if (next === undefined) {
        next = scopeOf(name, `${scope.id}${SEPARATOR}${name}`);
        scope.scopes.set(name, next);
      }
      scope = next;
      scope.all.push(span);
      scope.seq = Math.min(scope.seq, span.seq);
      scope.start = Math.min(scope.start, span.start_at);
      scope.end = scope.end === null || span.end_at === null ? null : Math.max(scope.end, span.end_at);
    }
    scope.spans.push(span);
  }
  return root;
}

// In the order of the journal. Instants would mislead: of a read only its end is written, and its bar begins where it can
// have begun at the earliest.
interface Item {
  seq: number;
  put(into: Row[], depth: number): void;
}

/** The rows that are to be seen, top to bottom. */
export function rowsOf(trace: Trace, folded: ReadonlySet<string>): Row[] {
  const rows: Row[] = [];
  const seams = trace.seams.map((seam): Item => ({
    seq: seam.seq,
    put: (into, depth) =>
      into.push({ id: seamId(seam), kind: "seam", depth, name: seam.text, start: seam.at, end: seam.until, seam }),
  }));
  lay(treeOf(trace.spans), folded, seams).forEach((item) => item.put(rows, 0));
  return rows;
}

function lay(scope: Scope, folded: ReadonlySet<string>, more: readonly Item[] = []): Item[] {
  const items: Item[] = [...more];
  for (const span of scope.spans) {
    items.push({
      seq: span.seq,
      put: (into, depth) =>
        into.push({
          id: spanId(span),
          kind: "span",
          depth,
          name: span.name,
          start: span.start_at,
          end: span.end_at,
          span,
        }),
    });
  }
  for (const inner of scope.scopes.values()) {
    items.push({
      seq: inner.seq,
      put(into, depth) {
        const isFolded = folded.has(inner.id);
        into.push({
          id: `scope:${inner.id}`,
          kind: "scope",
          depth,
          name: inner.name,
          start: inner.start,
          end: inner.end,
          spans: inner.all,
          folded: isFolded,
        });
        if (!isFolded) lay(inner, folded).forEach((item) => item.put(into, depth + 1));
      },
    });
  }
  return items.sort((one, other) => one.seq - other.seq);
}

/** Every scope there is, by its id. */
export function scopesOf(trace: Trace): string[] {
  const found = new Set<string>();
  for (const span of trace.spans) {
    let id = "";
    for (const name of namedScopes(span)) {
      id = `${id}${SEPARATOR}${name}`;
      found.add(id);
    }
  }
  return [...found];
}

export interface Stretch {
  kind: "driven" | "waits";
  from: number;
  to: number | null;
  worker: string;
  fence: number;
  takeover: boolean;
  text: string;
}

const DRIVES = new Set(["claimed", "takeover"]);
const RESTS = new Set(["created", "released", "waiting", "parked", "stalled", "dead_letter", "requeued", "restored"]);

/** Which worker ran the job when, and when none did. */
export function stretchesOf(trace: Trace): Stretch[] {
  const found: Stretch[] = [];
  for (const seam of trace.seams) {
    const drives = DRIVES.has(seam.kind);
    if (!drives && !RESTS.has(seam.kind) && seam.kind !== "ended") continue;
    const last = found.at(-1);
    if (last && last.to === null) last.to = seam.at;
    if (seam.kind === "ended") continue;
    found.push({
      kind: drives ? "driven" : "waits",
      from: seam.at,
      to: null,
      worker: drives ? seam.worker : "",
      fence: seam.fence,
      takeover: seam.kind === "takeover",
      text: seam.kind === "created" ? "pending" : seam.text,
    });
  }
  return found;
}
