// Metrics: throughput and cost, from the store; latency of this server, from its process.

import type { JSX } from "preact";
import { useMemo } from "preact/hooks";
import { type TimeSeries, isUnpriced, useTimeSeries } from "../core/time_series";
import { href, usePlace } from "../core/router";
import { Section, Trouble } from "../parts/common";
import { Foreign } from "../parts/text";
import { midnight, span } from "../text/times";
import { cost, count, money, plural } from "../text/words";
import { Chart } from "./chart";
import { Latency } from "./latency";
import { useSamples } from "./samples";
import { told, toneOf } from "./store_health";

const PERIODS = [
  [60, "hour"],
  [360, "6 hours"],
  [1440, "day"],
] as const;

const POINTS_MAX = 120;

export function MetricsPage(): JSX.Element {
  const { query } = usePlace();
  const minutes = PERIODS.find(([n]) => String(n) === query.get("minutes"))?.[0] ?? 60;
  const since = useMemo(midnight, []);
  const series = useTimeSeries(minutes, since);
  const { samples, problem } = useSamples();
  const last = samples.at(-1);
  return (
    <>
      <header class="section">
        <h1>Metrics</h1>
        <nav class="counts" aria-label="Period">
          {PERIODS.map(([n, words]) => (
            <a
              key={n}
              href={href(["dashboard"], { minutes: n === 60 ? null : n })}
              aria-current={n === minutes ? "true" : undefined}
            >
              last {words}
            </a>
          ))}
        </nav>
      </header>
      {problem && samples.length === 0 && <Trouble problem={problem} />}
      {series && <Done series={series} />}
      {last && (
        <Section title="Store health" aside="thresholds as in deploy/alerts.yml">
          <div class="tiles">
            {told(last).map(({ vital, value }) => (
              <div key={vital.metric} class={`tile ${toneOf(vital, value)}`} title={vital.metric}>
                <span>{vital.name}</span>
                <b>{vital.show(value)}</b>
                {vital.warn !== undefined && (
                  <span>
                    {vital.low
                      ? `at least ${vital.show(vital.warn)}`
                      : vital.warn === 1
                        ? "should be 0"
                        : `less than ${vital.show(vital.warn)}`}
                  </span>
                )}
              </div>
            ))}
          </div>
        </Section>
      )}
      <Latency samples={samples} />
      {series && <Costs series={series} />}
    </>
  );
}

/** So many points in a row become one: a day by the minute is more than a chart can show. */
function grouped(points: readonly number[] | undefined, together: number): number[] {
  const found: number[] = [];
  points?.forEach((point, nth) => {
    const place = Math.floor(nth / together);
    found[place] = (found[place] ?? 0) + point;
  });
  return found;
}

function Done({ series }: { series: TimeSeries }): JSX.Element {
  const together = Math.max(Math.ceil(series.at.length / POINTS_MAX), 1);
  const at = useMemo(() => series.at.filter((_, nth) => nth % together === 0), [series, together]);
  const each = `per ${span(series.step_us * together)}`;
  const lines = useMemo(
    () => ({
      ends: [
        { name: "submitted", colour: "--bar-read", points: grouped(series.submitted, together) },
        { name: "completed", colour: "--good", points: grouped(series.completed, together) },
        { name: "failed", colour: "--bad", points: grouped(series.failed, together) },
        { name: "dead-lettered", colour: "--warn", points: grouped(series.dead, together) },
      ].filter((one) => one.points.length > 0),
      hands: [
        { name: "takeovers", colour: "--warn", points: grouped(series.takeovers, together) },
        { name: "outcome unknown", colour: "--bad", points: grouped(series.uncertain, together) },
        { name: "tool calls", colour: "--bar-effect", points: grouped(series.tool_calls, together) },
      ].filter((one) => one.points.length > 0),
      tokens: [
        { name: "input", colour: "--bar-read", points: grouped(series.tokens_in, together) },
        { name: "output", colour: "--bar-model", points: grouped(series.tokens_out, together) },
      ].filter((one) => one.points.length > 0),
      cost: [{ name: "cost", colour: "--accent", points: grouped(series.usd_micros, together) }].filter((one) =>
        one.points.some((point) => point > 0),
      ),
    }),
    [series, together],
  );
  return (
    <Section
      title="Throughput"
      aside={series.complete === false ? "from the store; still counting" : "from the store"}
    >
      <Sums series={series} />
      <div class="charts">
        {lines.ends.length > 0 && (
          <Chart title="Jobs" hint={each} at={at} lines={lines.ends} show={count} sums least={4} />
        )}
        {lines.hands.length > 0 && (
          <Chart title="Calls and takeovers" hint={each} at={at} lines={lines.hands} show={count} sums least={4} />
        )}
        {lines.tokens.length > 0 && (
          <Chart title="Tokens" hint={each} at={at} lines={lines.tokens} show={count} sums least={10} />
        )}
        {lines.cost.length > 0 && <Chart title="Cost" hint={each} at={at} lines={lines.cost} show={money} sums bars />}
      </div>
    </Section>
  );
}

function Sums({ series }: { series: TimeSeries }): JSX.Element {
  const { today, pickup_us: pickup } = series;
  const tiles: (readonly [string, string])[] = [
    ...(today?.completed === undefined ? [] : [["completed today", count(today.completed)] as const]),
    ...(today?.failed === undefined ? [] : [["failed today", count(today.failed)] as const]),
    ...(today?.tokens_in === undefined
      ? []
      : [["tokens today", count(today.tokens_in + (today.tokens_out ?? 0))] as const]),
    ...(today?.usd_micros === undefined ? [] : [["cost today", cost(today.usd_micros, isUnpriced(today))] as const]),
    ...["p50", "p95", "p99"].flatMap((name, nth) =>
      pickup?.[nth] === undefined ? [] : [[`pickup ${name}`, span(pickup[nth] as number)] as const],
    ),
  ];
  return (
    <div class="tiles sums">
      {tiles.map(([name, value]) => (
        <div key={name} class="tile">
          <span>{name}</span>
          <b>{value}</b>
        </div>
      ))}
    </div>
  );
}

function Costs({ series }: { series: TimeSeries }): JSX.Element | null {
  const { by_model: models, by_agent: agents } = series;
  if (!models?.length && !agents?.length) return null;
  return (
    <div class="two">
      {models && models.length > 0 && (
        <Section title="By model">
          <Table
            head={["model", "calls", "tokens", "cost"]}
            rows={models.map((one) => [
              one.model,
              count(one.calls),
              `${count(one.tokens_in)} + ${count(one.tokens_out)}`,
              one.usd_micros === null ? "unknown" : money(one.usd_micros),
            ])}
          />
        </Section>
      )}
      {agents && agents.length > 0 && (
        <Section title="By agent">
          <Table
            head={["agent", "jobs", "tokens", "cost"]}
            rows={agents.map((one) => [
              one.kind,
              `${plural(one.jobs, "job")}${one.failed ? `, ${one.failed} failed` : ""}`,
              count(one.tokens),
              one.tokens === 0 ? "–" : one.usd_micros === null ? "unknown" : money(one.usd_micros),
            ])}
          />
        </Section>
      )}
    </div>
  );
}

function Table({ head, rows }: { head: readonly string[]; rows: readonly (readonly string[])[] }): JSX.Element {
  return (
    <div class="table">
      <table>
        <thead>
          <tr>
            {head.map((name, nth) => (
              <th key={name} class={nth === 0 ? "" : "num"}>
                {name}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {rows.map((row) => (
            <tr key={row[0]}>
              {row.map((cell, nth) => (
                <td key={head[nth]} class={nth === 0 ? "" : "num"}>
                  <Foreign text={cell} most={60} />
                </td>
              ))}
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}
