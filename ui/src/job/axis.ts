// Where an instant lies, from 0 to 1.
//
// A job that worked for two seconds and waited for three days is a line of nothing if it is drawn to scale. So a stretch
// that would push everything else to the edge is drawn as a power of its length, and the page says so.

import type { Trace } from "../core/types";

const SQUEEZE = 0.3;

export class Axis {
  private readonly instants: Float64Array;
  private readonly places: Float64Array;
  /** Whether squeezing would make a difference that matters. */
  readonly uneven: boolean;
  readonly squeezed: boolean;

  constructor(trace: Trace, end: number, toScale: boolean) {
    const found = new Set<number>([trace.start_at, end]);
    for (const span of trace.spans) {
      found.add(span.start_at);
      if (span.end_at !== null) found.add(span.end_at);
    }
    for (const seam of trace.seams) found.add(seam.at);
    this.instants = Float64Array.from(found).sort();
    let longest = 0;
    for (let nth = 1; nth < this.instants.length; nth += 1) longest = Math.max(longest, this.gap(nth));
    const whole = (this.instants.at(-1) ?? 0) - (this.instants[0] ?? 0);
    this.uneven = this.instants.length > 2 && longest * 2 > whole;
    this.squeezed = this.uneven && !toScale;
    this.places = new Float64Array(this.instants.length);
    for (let nth = 1; nth < this.places.length; nth += 1) {
      this.places[nth] = (this.places[nth - 1] as number) + (this.squeezed ? this.gap(nth) ** SQUEEZE : this.gap(nth));
    }
    const length = this.places.at(-1) || 1;
    for (let nth = 0; nth < this.places.length; nth += 1) (this.places[nth] as number) /= length;
  }

  private gap(nth: number): number {
    return (this.instants[nth] as number) - (this.instants[nth - 1] as number);
  }

  /** The place of an instant. */
  at(instant: number): number {
    return between(this.instants, this.places, instant);
  }

  /** The instant at a place. */
  instantAt(place: number): number {
    return between(this.places, this.instants, place);
  }
}

function between(from: Float64Array, to: Float64Array, value: number): number {
  let low = 0;
  let high = from.length - 1;
  if (value <= (from[low] as number)) return to[low] as number;
  if (value >= (from[high] as number)) return to[high] as number;
  while (high - low > 1) {
    const middle = (low + high) >> 1;
    if ((from[middle] as number) <= value) low = middle;
    else high = middle;
  }
  const a = from[low] as number;
  const b = from[high] as number;
  const part = b === a ? 0 : (value - a) / (b - a);
  return (to[low] as number) + part * ((to[high] as number) - (to[low] as number));
}

/** Instants to write on a ruler: round ones when it is to scale, else some that are far enough apart. */
export function ticksOf(axis: Axis, from: number, to: number, most: number): number[] {
  const first = axis.instantAt(from);
  const last = axis.instantAt(to);
  if (axis.squeezed)
    return Array.from({ length: most + 1 }, (_, nth) => axis.instantAt(from + ((to - from) * nth) / most));
  const raw = Math.max((last - first) / Math.max(most, 1), 1);
  const step = STEPS.find((one) => one >= raw) ?? raw;
  const found: number[] = [];
  const start = axis.instantAt(0);
  for (let at = start + Math.ceil((first - start) / step) * step; at <= last && found.length < 50; at += step)
    found.push(at);
  return found;
}

const SECOND = 1_000_000;
const STEPS = [
  ...[1, 2, 5, 10, 20, 50, 100, 200, 500].map((n) => n),
  ...[1, 2, 5, 10, 20, 50, 100, 200, 500].map((n) => n * 1000),
  ...[1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 14_400, 43_200, 86_400, 172_800, 604_800].map(
    (n) => n * SECOND,
  ),
];
