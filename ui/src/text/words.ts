// One word for one thing, and one tone for each word; the command line has the same.

export type Tone = "good" | "bad" | "warn" | "busy" | "quiet" | "plain";

export const STATUSES = ["pending", "running", "waiting", "completed", "failed", "cancelled"] as const;
export type Status = (typeof STATUSES)[number];
export const isOver = (status: string): boolean =>
  status === "completed" || status === "failed" || status === "cancelled";

const STATUS_TONES: Record<string, Tone> = {
  pending: "plain",
  running: "busy",
  waiting: "warn",
  completed: "good",
  failed: "bad",
  cancelled: "quiet",
};

/** Reasons that only a person ends. */
export const URGENT = new Set([
  "reconcile",
  "approval",
  "drift",
  "stalled",
  "dead_letter",
  "restore_review",
  "budget",
]);
export const WAIT_REASONS = [
  "timer",
  "signal",
  "approval",
  "reconcile",
  "child",
  "drift",
  "stalled",
  "budget",
  "dead_letter",
  "restore_review",
  "joined",
] as const;

export function statusTone(status: string, reason?: string | null): Tone {
  return reason && URGENT.has(reason) ? "bad" : (STATUS_TONES[status] ?? "plain");
}

/** `waiting: dead letter`. */
export const stateWords = (status: string, reason?: string | null): string =>
  reason ? `${status}: ${reason.replaceAll("_", " ")}` : status;

const OUTCOMES: Record<string, Tone> = {
  succeeded: "good",
  happened: "good",
  approved: "good",
  answered: "good",
  completed: "good",
  over: "busy",
  open: "busy",
  uncertain: "warn",
  failed: "bad",
  refused: "bad",
  ambiguous: "bad",
  fail: "bad",
  denied: "bad",
  "not answered": "bad",
  cancelled: "quiet",
  "given up": "quiet",
  skip: "quiet",
  not_happened: "quiet",
};
export const outcomeTone = (outcome: string): Tone => OUTCOMES[outcome] ?? "plain";
export const spaced = (word: string): string => word.replaceAll("_", " ");

/** What each side-effect class guarantees. */
export const EFFECTS: Record<string, string> = {
  read_only: "read only: changes nothing; may run again",
  idempotent: "idempotent: sent again under the same key; takes effect once",
  verifiable: "verifiable: the receiver is asked before it is sent again; takes effect once",
  unsafe: "unsafe: never repeated without a decision of a person; happens at most once",
};

/** `$0.0123` from millionths. */
export function money(micros: number): string {
  const dollars = micros / 1_000_000;
  if (micros === 0) return "$0";
  return dollars >= 100 ? `$${dollars.toFixed(0)}` : dollars >= 1 ? `$${dollars.toFixed(2)}` : `$${dollars.toFixed(4)}`;
}

/** Money, or that it is not known because a model has no price. */
export function cost(micros: number, isUnpriced: boolean): string {
  if (!isUnpriced) return money(micros);
  return micros === 0 ? "unknown" : `${money(micros)} + unknown`;
}

export const count = (n: number): string => n.toLocaleString("en-US");
export const plural = (n: number, one: string, many = `${one}s`): string => `${count(n)} ${n === 1 ? one : many}`;

/** A worker as people read it: its label and its pid. The rest of the name is for proofs. */
export function shortWorker(name: string): string {
  const found = /^([\s\S]*)@[0-9A-Za-z-]+\/[0-9]+\/([0-9]{1,10})\/[0-9]{1,20}$/.exec(name);
  return found ? `${found[1]}:${found[2]}` : name;
}

const WORKER_STATES: Record<string, string> = { here: "running" };
export const workerState = (state: string): string => WORKER_STATES[state] ?? state;

/** An id of ours is long and random in its end; both ends tell it apart. */
export function shortId(id: string, most = 18): string {
  return id.length <= most ? id : `${id.slice(0, most - 7)}…${id.slice(-6)}`;
}

export function bytes(n: number): string {
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  let at = 0;
  let size = n;
  while (size >= 1024 && at < units.length - 1) {
    size /= 1024;
    at += 1;
  }
  return `${at === 0 ? size : size.toFixed(size < 10 ? 1 : 0)} ${units[at]}`;
}
