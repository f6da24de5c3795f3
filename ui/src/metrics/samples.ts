// The metrics of the server's process, looked at every few seconds and kept for as long as the page lives.

import { useEffect } from "preact/hooks";
import { getText } from "../core/api";
import { store, useStore } from "../core/store";
import { problemIn } from "../core/polling";
import type { Problem } from "../core/api";
import { nowUs } from "../text/times";
import { type Sample, parse } from "./prometheus";

const EVERY_MS = 5000;
const KEPT = 720;

const samples = store<readonly Sample[]>([]);
const trouble = store<Problem | null>(null);

export function useSamples(): { samples: readonly Sample[]; problem: Problem | null } {
  useEffect(() => {
    let stopped = false;
    let timer: ReturnType<typeof setTimeout> | undefined;
    const look = async (): Promise<void> => {
      try {
        const sample = parse(await getText("/metrics"), nowUs());
        if (stopped) return;
        samples.set([...samples.get().slice(1 - KEPT), sample]);
        trouble.set(null);
      } catch (error) {
        trouble.set(problemIn(error));
      }
      if (!stopped) timer = setTimeout(() => void look(), EVERY_MS);
    };
    void look();
    return () => {
      stopped = true;
      clearTimeout(timer);
    };
  }, []);
  return { samples: useStore(samples), problem: useStore(trouble) };
}
