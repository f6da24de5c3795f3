// What happens to jobs, heard as it happens. Whoever shows a list looks at it anew when something has moved, and while the
// stream is open hardly otherwise.

import { type Looked, useLook } from "./looking";
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
export function hearJobs(): () => void {
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
export function useJobsLook<T>(path: string | null, everyMs: number): Looked<T> {
  const nth = useStore(moved);
  return useLook<T>(path, useStore(hears) ? WHILE_HEARD_MS : everyMs, nth);
}
