// Recent activity: counts by status, completed and failed jobs of the last hour, cost and tokens of today.

import type { JSX } from "preact";
import { useMemo } from "preact/hooks";
import { href } from "../core/router";
import { type TimeSeries, isUnpriced, useTimeSeries } from "../core/time_series";
import { Section } from "../parts/common";
import { midnight } from "../text/times";
import { cost, count } from "../text/words";
import { Sparkline } from "./sparkline";

const SHOWN = ["running", "pending", "waiting", "completed", "failed", "cancelled"] as const;

export function RecentActivity({ totals }: { totals: Record<string, number> | null }): JSX.Element {
  const since = useMemo(midnight, []);
  const series = useTimeSeries(60, since);
  return (
    <Section title="Recent activity" aside={<a href="/dashboard">metrics</a>}>
      <div class="tiles">
        {SHOWN.map((status) => (
          <a key={status} class={`tile ${totals?.[status] ? status : ""}`} href={href(["jobs"], { status })}>
            <span>{status}</span>
            <b>{totals === null ? "…" : count(totals[status] ?? 0)}</b>
          </a>
        ))}
        {series && <Hour series={series} />}
      </div>
    </Section>
  );
}

const sum = (points: readonly number[] | undefined): number => points?.reduce((all, one) => all + one, 0) ?? 0;

function Hour({ series }: { series: TimeSeries }): JSX.Element {
  const today = series.today;
  return (
    <>
      {series.completed && (
        <div class="tile wide">
          <span>completed in the last hour</span>
          <b>{count(sum(series.completed))}</b>
          <Sparkline points={series.completed} tone="good" label="jobs completed, per minute" />
        </div>
      )}
      {series.failed && (
        <div class="tile wide">
          <span>failed or dead-lettered in the last hour</span>
          <b>{count(sum(series.failed) + sum(series.dead))}</b>
          <Sparkline
            points={series.failed.map((n, nth) => n + (series.dead?.[nth] ?? 0))}
            tone="bad"
            label="jobs failed, per minute"
          />
        </div>
      )}
      {today?.usd_micros !== undefined && (
        <div class="tile">
          <span>cost today</span>
          <b>{cost(today.usd_micros, isUnpriced(today))}</b>
        </div>
      )}
      {today?.tokens_in !== undefined && (
        <div class="tile">
          <span>tokens today</span>
          <b>{count((today.tokens_in ?? 0) + (today.tokens_out ?? 0))}</b>
        </div>
      )}
    </>
  );
}
