// Polling: what a visible page shows is requested again every few seconds.

import { useCallback, useEffect, useRef, useState } from "preact/hooks";
import { ApiError, get, type Problem } from "./api";
import { useBearer } from "./auth";
import { store, useStore } from "./store";

export interface Polled<T> {
  value: T | null;
  problem: Problem | null;
  /** When it was last heard, whether or not it had changed. */
  at: number;
  /** Looks at once. */
  again(): void;
}

// A command was sent: everything shown is requested again at once.
const spoken = store(0);
export const pollEverywhere = (): void => spoken.set(spoken.get() + 1);

export function problemIn(error: unknown): Problem {
  if (error instanceof ApiError) return error.problem;
  const detail = error instanceof Error ? error.message : String(error);
  return { status: -1, code: "page", title: "Error in the page", detail, hint: "Reload the page." };
}

/** What lies at a path (null: nothing is asked), looked at every so many milliseconds while the page is visible, and at
 * once when `moved` is another number. */
export function usePoll<T>(path: string | null, everyMs: number | null, moved = 0): Polled<T> {
  const [state, setState] = useState<{ path: string | null; value: T | null; problem: Problem | null; at: number }>({
    path,
    value: null,
    problem: null,
    at: 0,
  });
  const bearer = useBearer();
  const heard = useStore(spoken);
  const every = useRef(everyMs);
  every.current = everyMs;
  const poke = useRef<() => void>(() => undefined);
  useEffect(() => {
    if (path === null) return;
    let stopped = false;
    let timer: ReturnType<typeof setTimeout> | undefined;
    let busy = false;
    let stale = false;
    let begun = 0;
    let ended = 0;
    const look = async (): Promise<void> => {
      clearTimeout(timer);
      busy = true;
      begun = Date.now();
      let wait = every.current;
      try {
        const value = await get<T>(path);
        if (stopped) return;
        setState((before) =>
          before.path === path && before.problem === null && Object.is(before.value, value)
            ? before
            : { path, value, problem: null, at: Date.now() },
        );
      } catch (error) {
        if (stopped) return;
        const problem = problemIn(error);
        // What was there stays there: an old truth with a note beside it is better than an empty page.
        setState((before) => ({ path, value: before.path === path ? before.value : null, problem, at: before.at }));
        if (problem.status === 0 || problem.retry) wait = Math.max(every.current ?? 0, 2000);
        else if (problem.status === 404 || problem.status === 401) wait = null;
      }
      busy = false;
      ended = Date.now();
      if (stale) wait = rest();
      stale = false;
      if (wait !== null) timer = setTimeout(next, wait);
    };
    // What is dear to read is read less often, however much moves: at most a quarter of the time.
    const rest = (): number => Math.max(3 * (ended - begun) - (Date.now() - ended), 0);
    const next = (): void => {
      if (document.visibilityState === "visible") void look();
      else document.addEventListener("visibilitychange", next, { once: true });
    };
    // A look under way is not cut off for a newer one: where much moves, none would ever come to its end.
    poke.current = () => {
      if (busy) {
        stale = true;
        return;
      }
      clearTimeout(timer);
      timer = setTimeout(next, rest());
    };
    void look();
    return () => {
      stopped = true;
      clearTimeout(timer);
      poke.current = () => undefined;
      document.removeEventListener("visibilitychange", next);
    };
  }, [path, everyMs === null, bearer]);
  const nth = useRef(heard + moved);
  useEffect(() => {
    if (nth.current !== heard + moved) poke.current();
    nth.current = heard + moved;
  }, [heard + moved]);
  const again = useCallback(() => poke.current(), []);
  const fits = state.path === path;
  return { value: fits ? state.value : null, problem: fits ? state.problem : null, at: state.at, again };
}
