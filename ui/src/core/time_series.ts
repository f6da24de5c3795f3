// Figures over time. The server counts them in the store; a server that cannot leaves fields out, and what is missing is not shown.

import { usePoll } from "./polling";

export interface TimeSeries {
  step_us: number;
  at: readonly number[];
  submitted?: readonly number[];
  completed?: readonly number[];
  failed?: readonly number[];
  cancelled?: readonly number[];
  dead?: readonly number[];
  takeovers?: readonly number[];
  tool_calls?: readonly number[];
  uncertain?: readonly number[];
  tokens_in?: readonly number[];
  tokens_out?: readonly number[];
  usd_micros?: readonly number[];
  /** How long jobs waited for a worker: the middle one, then what 95 and 99 of 100 stayed below. */
  pickup_us?: readonly number[];
  /** False: more is being read, and counts grow. */
  complete?: boolean;
  today?: {
    submitted?: number;
    completed?: number;
    failed?: number;
    usd_micros?: number;
    tokens_in?: number;
    tokens_out?: number;
  };
  by_model?: readonly {
    model: string;
    calls: number;
    tokens_in: number;
    tokens_out: number;
    usd_micros: number | null;
  }[];
  by_agent?: readonly { kind: string; jobs: number; failed: number; usd_micros: number | null; tokens: number }[];
}

/** Whether the models of today have no known price: tokens were used, and nothing was charged. */
export const isUnpriced = (today: NonNullable<TimeSeries["today"]>): boolean =>
  !today.usd_micros && (today.tokens_in ?? 0) + (today.tokens_out ?? 0) > 0;

export function useTimeSeries(minutes: number, todaySince: number): TimeSeries | null {
  return usePoll<TimeSeries>(`/api/time-series?minutes=${minutes}&today_since=${todaySince}`, 15_000).value;
}
