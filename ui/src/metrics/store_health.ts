// Store health: each figure with the thresholds of deploy/alerts.yml.

import { bytes, count } from "../text/words";
import { span } from "../text/times";
import { type Sample, sum } from "./prometheus";

export interface HealthFigure {
  name: string;
  metric: string;
  show(value: number): string;
  warn?: number;
  bad?: number;
  /** Small is bad. */
  low?: boolean;
}

const seconds = (value: number): string => span(value * 1_000_000);
const percent = (value: number): string => `${(value * 100).toFixed(0)}%`;

export const HEALTH_FIGURES: readonly HealthFigure[] = [
  { name: "oldest ready job", metric: "holdfast_oldest_ready_seconds", show: seconds, warn: 60, bad: 600 },
  { name: "calls of unknown outcome", metric: "holdfast_uncertain_calls", show: count, warn: 1 },
  { name: "stalled jobs", metric: "holdfast_stalled_jobs", show: count, warn: 1 },
  { name: "dead letters", metric: "holdfast_dead_letters", show: count, warn: 1 },
  { name: "expired leases", metric: "holdfast_expired_leases", show: count },
  { name: "takeovers without progress", metric: "holdfast_job_takeovers_max", show: count, warn: 2, bad: 3 },
  {
    name: "store reachable",
    metric: "holdfast_store_up",
    show: (value) => (value === 1 ? "yes" : "no"),
    bad: 1,
    low: true,
  },
  {
    name: "NATS",
    metric: "holdfast_nats_up",
    show: (value) => (value === 1 ? "connected" : "unreachable"),
    warn: 1,
    low: true,
  },
  { name: "database", metric: "holdfast_database_bytes", show: bytes },
  { name: "write-ahead log", metric: "holdfast_wal_bytes", show: bytes, warn: 67_108_864, bad: 536_870_912 },
  { name: "free disk", metric: "holdfast_disk_free_ratio", show: percent, warn: 0.15, bad: 0.05, low: true },
  { name: "clock offset", metric: "holdfast_clock_offset_seconds", show: seconds, warn: 0.5, bad: 5 },
  { name: "last backup", metric: "holdfast_backup_age_seconds", show: seconds, warn: 26 * 3600, bad: 72 * 3600 },
  { name: "cached responses", metric: "holdfast_cache_entries", show: count },
];

export function toneOf(vital: HealthFigure, value: number): "bad" | "warn" | "" {
  const beyond = (bound: number | undefined): boolean =>
    bound !== undefined && (vital.low ? value < bound : Math.abs(value) >= bound);
  return beyond(vital.bad) ? "bad" : beyond(vital.warn) ? "warn" : "";
}

export function told(sample: Sample): { vital: HealthFigure; value: number }[] {
  return HEALTH_FIGURES.flatMap((vital) => {
    const value = sum(sample, vital.metric);
    return value === null ? [] : [{ vital, value }];
  });
}
