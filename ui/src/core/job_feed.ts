// Job feed: changes of jobs over server-sent events. A list is polled again when a job in it has changed, and rarely
// otherwise while the stream is open.

import { type Polled, usePoll } from "./polling";
import { listen } from "./sse";
import { store, useStore } from "./store";

const moved = store(0);
const hears = store(false);
const AT_MOST_EVERY_MS = 700;
const WHILE_HEARD_MS = 15_000;

let timer: ReturnType<typeof setTimeout> | undefined;

/** Many jobs move at once; one look shows them all. */
function note(): void {
  timer ??= setTimeout(() => {
    timer = undefined;
    moved.set(moved.get() + 1);
  }, AT_MOST_EVERY_MS);
}

/** Listens until it is told to stop. A server that has no such stream is asked again and again instead. */
export function subscribeToJobs(): () => void {
  let wasCut = false;
  const stop = listen("/api/feed/jobs", {
    told: note,
    state(state) {
      hears.set(state === "live");
      if (state === "live" && wasCut) note(); // whatever was missed meanwhile
      wasCut = state !== "live";
    },
  });
  return () => {
    stop();
    hears.set(false);
  };
}

/** What lies there, as of the last move of any job; without a stream as of a few moments ago. */
export function useJobsPoll<T>(path: string | null, everyMs: number): Polled<T> {
  const nth = useStore(moved);
  return usePoll<T>(path, useStore(hears) ? WHILE_HEARD_MS : everyMs, nth);
}
