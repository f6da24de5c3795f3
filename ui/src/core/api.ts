// The API, asked: JSON in, JSON out, problems as errors that say what to do.

import { asksForKey, bearerNow, keepBearer, outlived } from "./auth";
import { parseExact } from "../text/exact";
import { answered } from "./connection";

export interface Problem {
  status: number;
  code: string;
  title: string;
  detail: string;
  hint: string;
  request_id?: string;
  retry?: boolean;
}

/** What the server said against it, or that it did not answer (status 0). */
export class ApiError extends Error {
  constructor(readonly problem: Problem) {
    super(problem.detail);
    this.name = "ApiError";
  }
}

const AWAY: Problem = {
  status: 0,
  code: "unreachable",
  title: "No response",
  detail: "the server does not respond",
  hint: "Check that `holdfast up` or `holdfast serve` is running. This page retries by itself.",
  retry: true,
};

const READ_ONLY_HINT =
  "Without a token this page is read-only. Open the link with #token=… that `holdfast up` or `holdfast serve` printed, or paste an API key.";

export function headersOf(more: Record<string, string> = {}): Record<string, string> {
  const bearer = bearerNow();
  return bearer === null ? more : { ...more, Authorization: `Bearer ${bearer}` };
}

export async function problemOf(answer: Response): Promise<Problem> {
  let said: Partial<Problem> = {};
  try {
    said = (await answer.json()) as Partial<Problem>;
  } catch {
    // not one of ours: a proxy in between
  }
  const problem: Problem = {
    status: answer.status,
    code: said.code ?? "error",
    title: said.title ?? answer.statusText,
    detail: said.detail ?? `the server answered ${answer.status}`,
    hint: said.hint ?? "",
  };
  if (said.request_id !== undefined) problem.request_id = said.request_id;
  if (said.retry !== undefined) problem.retry = said.retry;
  return problem;
}

interface Known {
  tag: string;
  value: unknown;
  size: number;
}

// What was last read of each address. A repeated look then costs the server a digest and the wire nothing.
const known = new Map<string, Known>();
const KNOWN_SIZE_MAX = 24_000_000;

function keep(path: string, one: Known): void {
  known.delete(path);
  known.set(path, one);
  let size = 0;
  for (const each of known.values()) size += each.size;
  for (const [oldest, each] of known) {
    if (size <= KNOWN_SIZE_MAX || oldest === path) return;
    known.delete(oldest);
    size -= each.size;
  }
}

const underWay = new Map<string, Promise<unknown>>();

/** What lies there. The very same object again as long as nothing has changed, so a component that compares does not render again; and
 * two parts of a page that look at one thing at once ask once. */
export function get<T>(path: string): Promise<T> {
  const asked = `${bearerNow()} ${path}`;
  const before = underWay.get(asked) as Promise<T> | undefined;
  if (before) return before;
  const asking = read<T>(path).finally(() => underWay.delete(asked));
  underWay.set(asked, asking);
  return asking;
}

async function read<T>(path: string): Promise<T> {
  const before = known.get(path);
  const headers = headersOf(before ? { "If-None-Match": before.tag } : {});
  const answer = await reached(path, { headers });
  if (answer.status === 304 && before) return before.value as T;
  if (!answer.ok) throw await refused(answer, "GET");
  const text = await answer.text();
  const value = parseExact(text) as T;
  const tag = answer.headers.get("etag");
  if (tag !== null) keep(path, { tag, value, size: text.length });
  return value;
}

export async function getText(path: string): Promise<string> {
  const answer = await reached(path, { headers: headersOf() });
  if (!answer.ok) throw await refused(answer, "GET");
  return answer.text();
}

/** A body that is JSON already: numbers that a person typed are sent digit by digit. */
export class Raw {
  constructor(readonly text: string) {}
}

/** A unique key. `crypto.randomUUID` is not there over plain HTTP off loopback. */
export function newKey(): string {
  const bytes = crypto.getRandomValues(new Uint8Array(16));
  return Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");
}

/** Says something. Each word has a key, so a repeated send is the same word. */
export async function post<T>(path: string, body: unknown, key: string = newKey()): Promise<T> {
  const headers = headersOf({ "Content-Type": "application/json", "Idempotency-Key": key });
  const answer = await reached(path, {
    method: "POST",
    headers,
    body: body instanceof Raw ? body.text : JSON.stringify(body),
  });
  if (!answer.ok) throw await refused(answer, "POST");
  return (await answer.json()) as T;
}

export async function remove<T>(path: string): Promise<T> {
  const answer = await reached(path, { method: "DELETE", headers: headersOf() });
  if (!answer.ok) throw await refused(answer, "DELETE");
  return (await answer.json()) as T;
}

/** A file to keep: read with our header, which a plain link could not send. */
export async function download(path: string, name: string, accept: string): Promise<void> {
  const answer = await reached(path, { headers: headersOf({ Accept: accept }) });
  if (!answer.ok) throw await refused(answer, "GET");
  const address = URL.createObjectURL(await answer.blob());
  const link = document.createElement("a");
  link.href = address;
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(address), 10_000);
}

async function reached(path: string, how: RequestInit): Promise<Response> {
  try {
    const answer = await fetch(path, { ...how, credentials: "omit", cache: "no-store" });
    answered(true);
    return answer;
  } catch {
    answered(false);
    throw new ApiError(AWAY);
  }
}

async function refused(answer: Response, method: string): Promise<ApiError> {
  const problem = await problemOf(answer);
  if (problem.status === 401) {
    const opens = await opensWithout();
    if (opens) problem.hint = READ_ONLY_HINT;
    if (!opens || method !== "GET") asksForKey.set(true);
  }
  return new ApiError(problem);
}

/** Whether the server may be looked at by everybody. Then a token that it refuses is of a start that is over, and forgotten. */
async function opensWithout(): Promise<boolean> {
  const before = bearerNow();
  try {
    const answer = await fetch("/api/whoami", { credentials: "omit", cache: "no-store" });
    if (!answer.ok) return false;
  } catch {
    return false;
  }
  if (before !== null && bearerNow() === before) {
    keepBearer(null);
    outlived.set(outlived.get() + 1);
  }
  return true;
}

/** A path with ids in it. A slash in an id is written %2F. */
export function at(strings: TemplateStringsArray, ...ids: (string | number)[]): string {
  return strings.reduce((text, part, nth) => text + encodeURIComponent(String(ids[nth - 1])) + part);
}
