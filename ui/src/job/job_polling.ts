// One job, looked at while it lives. Its head is asked for every second, which costs the server one row; all of it is read
// again only when the head has moved.

import { useEffect, useMemo, useState } from "preact/hooks";
import { at } from "../core/api";
import { type Polled, usePoll } from "../core/polling";
import type { Job, Trace } from "../core/types";
import { isOver } from "../text/words";

export interface Reading {
  job: Polled<Job>;
  trace: Polled<Trace>;
}

const BEHIND_ALL = 1_000_000_000;

export function useJob(id: string): Reading {
  const [over, setOver] = useState(false);
  const head = usePoll<unknown>(at`/api/jobs/${id}/events?after=${BEHIND_ALL}&limit=1`, over ? 10_000 : 1000);
  const job = usePoll<Job>(at`/api/jobs/${id}`, null);
  const trace = usePoll<Trace>(at`/api/jobs/${id}/trace?bodies=none`, null);
  const isKnown = job.value !== null;
  useEffect(() => {
    // What is over does not change; of anything else the head may have moved since it was read.
    if (head.value === null || job.value === null || isOver(job.value.status)) return;
    job.again();
    trace.again();
  }, [head.value, isKnown]);
  const isEnd = job.value !== null && isOver(job.value.status);
  useEffect(() => setOver(isEnd), [isEnd]);
  return useMemo(() => ({ job, trace }), [job.value, job.problem, trace.value, trace.problem]);
}
