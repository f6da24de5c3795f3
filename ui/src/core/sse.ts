// Server-sent events over fetch. EventSource cannot send an Authorization header; this can, and resumes the same way.

import { ApiError, headersOf, problemOf } from "./api";
import { streaming } from "./connection";

export interface Told {
  id: string;
  event: string;
  data: string;
}

/** Feeds on pieces of a stream as they come, and tells whole events. */
export function parser(tell: (told: Told) => void): (piece: string) => void {
  let rest = "";
  let id = "";
  let event = "";
  let data: string[] = [];
  return (piece) => {
    rest += piece;
    for (;;) {
      const end = rest.search(/\r\n|\n|\r/);
      // A lone CR at the very end may be the first half of a CRLF.
      if (end < 0 || (rest[end] === "\r" && end === rest.length - 1)) return;
      const line = rest.slice(0, end);
      rest = rest.slice(end + (rest.startsWith("\r\n", end) ? 2 : 1));
      if (line === "") {
        if (data.length > 0) tell({ id, event: event || "message", data: data.join("\n") });
        event = "";
        data = [];
        continue;
      }
      if (line.startsWith(":")) continue;
      const colon = line.indexOf(":");
      const name = colon < 0 ? line : line.slice(0, colon);
      const value = colon < 0 ? "" : line.slice(colon + 1).replace(/^ /, "");
      if (name === "id") id = value;
      else if (name === "event") event = value;
      else if (name === "data") data.push(value);
    }
  };
}

export type StreamState = "live" | "reconnecting" | "ended" | "refused";

export interface Listening {
  told(told: Told): void;
  state?(state: StreamState): void;
  /** Says that this event is the last one. */
  isLast?(told: Told): boolean;
}

const PAUSES_MS = [250, 500, 1000, 2000, 5000, 10_000];
const SILENCE_MS = 60_000;
const HIDDEN_MS = 5000;

/** Listens until it is told to stop, or the last event came. A cut stream is asked for again behind its last id.
 *
 * A hidden tab closes its streams: a browser has few connections for one server, and other tabs need them. What
 * it missed it hears when it is looked at again.
 */
export function listen(path: string, to: Listening): () => void {
  const stop = new AbortController();
  const which = Symbol(path);
  void (async () => {
    let last = "";
    let tries = 0;
    while (!stop.signal.aborted) {
      await seen(stop.signal);
      const hidden = whenHidden();
      try {
        const over = await once(path, last, AbortSignal.any([stop.signal, hidden.signal]), to, which, (told) => {
          if (told.id) last = told.id;
          tries = 0;
        });
        if (over) return ended(to, which, "ended");
      } catch (error) {
        if (stop.signal.aborted) return;
        if (error instanceof ApiError && isFinal(error.problem.status)) return ended(to, which, "refused");
      } finally {
        hidden.done();
      }
      if (stop.signal.aborted) return;
      if (hidden.signal.aborted) {
        streaming(which, null);
        continue;
      }
      to.state?.("reconnecting");
      streaming(which, "reconnecting");
      await pause(PAUSES_MS[Math.min(tries, PAUSES_MS.length - 1)] as number, stop.signal);
      tries += 1;
    }
  })();
  return () => {
    stop.abort();
    streaming(which, null);
  };
}

const isFinal = (status: number): boolean => status >= 400 && status < 500 && status !== 429;

function ended(to: Listening, which: symbol, state: "ended" | "refused"): void {
  streaming(which, null);
  to.state?.(state);
}

/** Aborts when the tab has been hidden for a while. */
function whenHidden(): { signal: AbortSignal; done(): void } {
  const hidden = new AbortController();
  let timer: ReturnType<typeof setTimeout> | undefined;
  const look = (): void => {
    clearTimeout(timer);
    if (document.visibilityState === "hidden") timer = setTimeout(() => hidden.abort(), HIDDEN_MS);
  };
  document.addEventListener("visibilitychange", look);
  look();
  return {
    signal: hidden.signal,
    done() {
      clearTimeout(timer);
      document.removeEventListener("visibilitychange", look);
    },
  };
}

/** The tab is visible. */
function seen(stop: AbortSignal): Promise<void> {
  if (document.visibilityState === "visible") return Promise.resolve();
  return new Promise((resolve) => {
    const look = (): void => {
      if (document.visibilityState !== "visible" && !stop.aborted) return;
      document.removeEventListener("visibilitychange", look);
      resolve();
    };
    document.addEventListener("visibilitychange", look);
    stop.addEventListener("abort", look, { once: true });
  });
}

async function once(
  path: string,
  last: string,
  stop: AbortSignal,
  to: Listening,
  which: symbol,
  seen: (told: Told) => void,
): Promise<boolean> {
  const silence = new AbortController();
  const both = AbortSignal.any([stop, silence.signal]);
  const headers = headersOf({ Accept: "text/event-stream", ...(last ? { "Last-Event-ID": last } : {}) });
  const answer = await fetch(path, { headers, signal: both, credentials: "omit", cache: "no-store" });
  if (!answer.ok || answer.body === null) throw new ApiError(await problemOf(answer));
  to.state?.("live");
  streaming(which, "live");
  let over = false;
  const take = parser((told) => {
    seen(told);
    to.told(told);
    if (to.isLast?.(told)) over = true;
  });
  const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
  // The server says that it is still there; a connection that says nothing for long is a dead one.
  let timer = setTimeout(() => silence.abort(), SILENCE_MS);
  try {
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return over;
      clearTimeout(timer);
      timer = setTimeout(() => silence.abort(), SILENCE_MS);
      take(value);
      if (over) return true;
    }
  } finally {
    clearTimeout(timer);
    reader.cancel().catch(() => undefined);
  }
}

function pause(ms: number, stop: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    const timer = setTimeout(resolve, ms * (0.75 + Math.random() / 2));
    stop.addEventListener(
      "abort",
      () => {
        clearTimeout(timer);
        resolve();
      },
      { once: true },
    );
  });
}
