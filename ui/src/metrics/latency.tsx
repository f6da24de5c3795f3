// Latency: percentiles of this server's process between samples, with the thresholds of the alerts.

import type { JSX } from "preact";
import { useMemo } from "preact/hooks";
import { Section } from "../parts/common";
import { span } from "../text/times";
import { plural } from "../text/words";
import { Chart, type Line, type Threshold } from "./chart";
import { type Sample, growth, quantile, sum } from "./prometheus";

const WINDOW_US = 60 * 1_000_000;
const seconds = (value: number): string => span(value * 1_000_000);
const rate = (value: number): string => `${value < 10 ? value.toFixed(1) : Math.round(value)}/s`;

interface Speed {
  title: string;
  metric: string;
  hint: string;
  thresholds: readonly Threshold[];
}

const SPEEDS: readonly Speed[] = [
  {
    title: "Commit",
    metric: "holdfast_commit_seconds",
    hint: "one commit to the store",
    thresholds: [
      { value: 0.05, name: "p95", tone: "warn" },
      { value: 0.1, name: "p99", tone: "bad" },
    ],
  },
  {
    title: "Recovery sweep",
    metric: "holdfast_sweep_seconds",
    hint: "",
    thresholds: [
      { value: 10, name: "p99", tone: "warn" },
      { value: 60, name: "p99", tone: "bad" },
    ],
  },
  {
    title: "Event loop delay",
    metric: "holdfast_event_loop_delay_seconds",
    hint: "",
    thresholds: [
      { value: 0.1, name: "p99", tone: "warn" },
      { value: 1, name: "p99", tone: "bad" },
    ],
  },
  { title: "HTTP responses", metric: "holdfast_http_seconds", hint: "until the response began", thresholds: [] },
];

const WAITED: readonly Threshold[] = [
  { value: 60, name: "slow", tone: "warn" },
  { value: 600, name: "very slow", tone: "bad" },
];

export function Latency({ samples }: { samples: readonly Sample[] }): JSX.Element | null {
  const at = useMemo(() => samples.map((one) => one.at), [samples]);
  const shown = useMemo(
    () =>
      SPEEDS.map((speed) => ({ speed, lines: percentiles(samples, speed.metric) })).filter(({ lines }) =>
        lines.some((one) => one.points.some((point) => point !== null)),
      ),
    [samples],
  );
  const pickup = useMemo(
    (): Line[] => [
      { name: "oldest", colour: "--accent", points: samples.map((one) => sum(one, "holdfast_oldest_ready_seconds")) },
    ],
    [samples],
  );
  const rates = useMemo(
    (): Line[] => [
      { name: "requests", colour: "--accent", points: perSecond(samples, "holdfast_http_requests_total") },
      { name: "appends", colour: "--bar-effect", points: perSecond(samples, "holdfast_appends_total") },
    ],
    [samples],
  );
  if (samples.length === 0) return null;
  if (samples.length === 1) {
    return (
      <Section title="Latency">
        <p class="dim">Charts need two samples of this server's process. The second one follows in a moment.</p>
      </Section>
    );
  }
  return (
    <Section
      title="Latency"
      aside={`of this server's process, ${plural(samples.length, "sample")} since the page was opened; workers serve theirs on --metrics-port`}
    >
      <div class="charts">
        <Chart
          title="Pickup"
          hint="wait of the oldest ready job"
          at={at}
          lines={pickup}
          thresholds={WAITED}
          show={seconds}
          least={1}
        />
        {shown.map(({ speed, lines }) => (
          <Chart
            key={speed.metric}
            title={speed.title}
            hint={speed.hint}
            at={at}
            lines={lines}
            thresholds={speed.thresholds}
            show={seconds}
            least={0.001}
          />
        ))}
        <Chart title="Rates" at={at} lines={rates} show={rate} least={1} />
      </div>
    </Section>
  );
}

/** The look a minute before this one, or the first there is. */
function minuteBefore(samples: readonly Sample[], nth: number): Sample | null {
  const now = samples[nth] as Sample;
  for (let at = nth - 1; at >= 0; at -= 1)
    if (now.at - (samples[at] as Sample).at >= WINDOW_US) return samples[at] as Sample;
  return nth > 0 ? (samples[0] as Sample) : null;
}

function percentiles(samples: readonly Sample[], metric: string): Line[] {
  const parts = [
    ["p50", 0.5, "--bar-read"],
    ["p95", 0.95, "--accent"],
    ["p99", 0.99, "--bar-model"],
  ] as const;
  return parts.map(([name, part, colour]) => ({
    name,
    colour,
    points: samples.map((one, nth) => quantile(part, minuteBefore(samples, nth), one, metric)),
  }));
}

function perSecond(samples: readonly Sample[], metric: string): (number | null)[] {
  return samples.map((one, nth) => {
    const before = samples[nth - 1];
    if (!before) return null;
    const grown = growth(before, one, metric);
    return grown === null ? null : grown / Math.max((one.at - before.at) / 1_000_000, 0.001);
  });
}
