// A chart with its thresholds drawn in.

import type { JSX } from "preact";
import { useEffect, useRef } from "preact/hooks";
import uPlot from "uplot";
import "uplot/dist/uPlot.min.css";
import { useStore } from "../core/store";
import { painted } from "../core/theme";

export interface Line {
  name: string;
  /** The name of a colour: `--good`. */
  colour: string;
  points: readonly (number | null)[];
}

export interface Threshold {
  value: number;
  name: string;
  tone: "warn" | "bad";
}

interface ChartProps {
  title: string;
  hint?: string;
  at: readonly number[];
  lines: readonly Line[];
  thresholds?: readonly Threshold[];
  show(value: number): string;
  /** The legend tells the sum of all points instead of the last one. */
  sums?: boolean;
  /** The least that the upper end of the axis stands for: noise below it is not blown up. */
  least?: number;
  bars?: boolean;
}

const HIGH = 150;

export function Chart({
  title,
  hint,
  at,
  lines,
  thresholds = [],
  show,
  sums = false,
  least = 1e-9,
  bars = false,
}: ChartProps): JSX.Element {
  const box = useRef<HTMLDivElement>(null);
  const chart = useRef<uPlot | null>(null);
  const theme = useStore(painted);
  const shape = JSON.stringify([lines.map((one) => [one.name, one.colour]), thresholds, bars]);

  useEffect(() => {
    const element = box.current;
    if (!element) return;
    const made = new uPlot(optionsOf(element, lines, thresholds, show, least, bars), dataOf(at, lines), element);
    chart.current = made;
    const watch = new ResizeObserver(() => made.setSize({ width: element.clientWidth, height: HIGH }));
    watch.observe(element);
    return () => {
      watch.disconnect();
      made.destroy();
      chart.current = null;
    };
  }, [shape, theme]);
  useEffect(() => chart.current?.setData(dataOf(at, lines)), [at, lines]);

  const now = lines.map((one) => [one, sums ? sumOf(one) : lastOf(one)] as const);
  return (
    <figure class="chart sheet">
      <figcaption>
        <b>{title}</b>
        {hint && <span class="dim small"> {hint}</span>}
        <ul class="legend">
          {now.map(([one, value]) => (
            <li key={one.name}>
              <i ref={(dot) => void (dot && (dot.style.background = `var(${one.colour})`))} aria-hidden="true" />
              {one.name} <b>{value === null ? "–" : show(value)}</b>
            </li>
          ))}
          {thresholds.map((one) => (
            <li key={one.name} class={one.tone === "bad" ? "outcome bad" : "outcome warn"}>
              ╌ {one.name} {show(one.value)}
            </li>
          ))}
        </ul>
      </figcaption>
      <div
        ref={box}
        class="plot"
        role="img"
        aria-label={`${title}: ${now.map(([one, value]) => `${one.name} ${value === null ? "unknown" : show(value)}`).join(", ")}`}
      />
    </figure>
  );
}

const lastOf = (line: Line): number | null => line.points.findLast((point) => point !== null) ?? null;
const sumOf = (line: Line): number => line.points.reduce<number>((all, point) => all + (point ?? 0), 0);

/** Hours and minutes; seconds when ticks are that close. */
function clocks(ticks: readonly number[]): string[] {
  const close = ticks.length > 1 && (ticks[1] as number) - (ticks[0] as number) < 60;
  return ticks.map((tick) => new Date(tick * 1000).toTimeString().slice(0, close ? 8 : 5));
}

function dataOf(at: readonly number[], lines: readonly Line[]): uPlot.AlignedData {
  return [at.map((one) => one / 1_000_000), ...lines.map((one) => [...one.points])];
}

function optionsOf(
  element: Element,
  lines: readonly Line[],
  thresholds: readonly Threshold[],
  show: (value: number) => string,
  least: number,
  bars: boolean,
): uPlot.Options {
  const style = getComputedStyle(element);
  const of = (name: string): string => style.getPropertyValue(name).trim();
  const axis = {
    stroke: of("--ink-3"),
    grid: { stroke: of("--rule"), width: 1 },
    ticks: { stroke: of("--rule"), width: 1 },
    font: `11px ${of("--font")}`,
  };
  const most = Math.max(0, ...thresholds.filter((one) => one.tone === "warn").map((one) => one.value));
  return {
    width: element.clientWidth || 300,
    height: HIGH,
    legend: { show: false },
    cursor: { y: false, points: { size: 6 } },
    scales: {
      y: {
        // A threshold is shown when one comes near it; far below it would flatten everything else.
        range: (_plot, _min, max) => [0, Math.max(max * 1.1, max > most / 4 ? most * 1.15 : 0, least)],
      },
    },
    axes: [
      { ...axis, size: 26, values: (_plot, ticks) => clocks(ticks) },
      { ...axis, size: 64, values: (_plot, ticks) => ticks.map((tick) => show(tick)) },
    ],
    series: [
      {},
      ...lines.map((one): uPlot.Series => {
        const colour = of(one.colour);
        const drawn: uPlot.Series = {
          label: one.name,
          stroke: colour,
          width: 1.5,
          spanGaps: true,
          points: { show: false },
        };
        const paths = bars ? uPlot.paths.bars?.({ size: [0.8, 12] }) : undefined;
        return paths ? { ...drawn, paths, fill: `${colour}aa` } : drawn;
      }),
    ],
    hooks: {
      draw: [
        (plot) => {
          for (const one of thresholds) {
            const y = plot.valToPos(one.value, "y", true);
            if (y < plot.bbox.top) continue;
            plot.ctx.save();
            plot.ctx.strokeStyle = of(one.tone === "bad" ? "--bad" : "--warn");
            plot.ctx.setLineDash([6, 4]);
            plot.ctx.lineWidth = devicePixelRatio;
            plot.ctx.beginPath();
            plot.ctx.moveTo(plot.bbox.left, y);
            plot.ctx.lineTo(plot.bbox.left + plot.bbox.width, y);
            plot.ctx.stroke();
            plot.ctx.restore();
          }
        },
      ],
    },
  };
}
