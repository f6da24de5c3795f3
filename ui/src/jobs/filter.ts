// Which jobs: the filters as they stand in the address, and as the API is asked for them.

import { type Query, href } from "../core/router";

export const NAMES = [
  "status",
  "wait_reason",
  "kind",
  "queue",
  "session_id",
  "parent_job_id",
  "since",
  "until",
  "text",
] as const;
export type Filter = Partial<Record<(typeof NAMES)[number], string>>;

const PERIODS: Record<string, number> = {
  "15m": 15 * 60,
  "1h": 3600,
  "24h": 86_400,
  "7d": 7 * 86_400,
  "30d": 30 * 86_400,
};
export const SINCE: readonly (readonly [string, string])[] = [
  ["", "any time"],
  ["15m", "last 15 minutes"],
  ["1h", "last hour"],
  ["24h", "last day"],
  ["7d", "last week"],
  ["30d", "last month"],
];

export function filterIn(query: URLSearchParams): Filter {
  const filter: Filter = {};
  for (const name of NAMES) {
    const value = query.get(name);
    if (value) filter[name] = value;
  }
  return filter;
}

export const isFiltered = (filter: Filter): boolean => Object.keys(filter).length > 0;

/** The query for the API. A period counts back from now, to the minute, so that looks a second apart are the same look. */
export function asked(filter: Filter, more: Query = {}): string {
  const query: Query = { ...filter, ...more };
  const period = filter.since === undefined ? undefined : PERIODS[filter.since];
  if (period !== undefined) query.since = (Math.floor(Date.now() / 60_000) * 60 - period) * 1_000_000;
  return href([], query).slice(1);
}
