// Paints bars on a canvas: only the rows that are to be seen, so ten thousand of them cost as much as forty.

import type { Span } from "../core/types";
import { span as lengthOf } from "../text/times";
import { shortWorker } from "../text/words";
import { visible } from "../text/visible";
import { type Axis, ticksOf } from "./axis";
import type { Row, Stretch } from "./rows";

export interface Window {
  from: number;
  to: number;
}

export interface Colours {
  ink: string;
  ink3: string;
  rule: string;
  sheet: string;
  sunken: string;
  accent: string;
  good: string;
  bad: string;
  warn: string;
  read: string;
  effect: string;
  model: string;
  wait: string;
  child: string;
  font: string;
}

export function coloursOf(element: Element): Colours {
  const style = getComputedStyle(element);
  const of = (name: string): string => style.getPropertyValue(name).trim();
  return {
    ink: of("--ink"),
    ink3: of("--ink-3"),
    rule: of("--rule"),
    sheet: of("--sheet"),
    sunken: of("--sunken"),
    accent: of("--accent"),
    good: of("--good"),
    bad: of("--bad"),
    warn: of("--warn"),
    read: of("--bar-read"),
    effect: of("--bar-effect"),
    model: of("--bar-model"),
    wait: of("--bar-wait"),
    child: of("--bar-child"),
    font: of("--font") || "sans-serif",
  };
}

const WRONG = new Set(["failed", "refused", "ambiguous", "fail", "denied", "not answered"]);

function colourOf(span: Span, colours: Colours): string {
  if (WRONG.has(span.outcome)) return colours.bad;
  if (span.outcome === "uncertain") return colours.warn;
  switch (span.kind) {
    case "effect":
      return colours.effect;
    case "model":
      return colours.model;
    case "sleep":
    case "approval":
      return colours.wait;
    case "child":
    case "node":
      return colours.child;
    default:
      return colours.read;
  }
}

/** A canvas as large as its box, in the pixels that the screen has. */
export function fit(canvas: HTMLCanvasElement, width: number, height: number): CanvasRenderingContext2D | null {
  const ratio = devicePixelRatio || 1;
  if (canvas.width !== Math.round(width * ratio) || canvas.height !== Math.round(height * ratio)) {
    canvas.width = Math.round(width * ratio);
    canvas.height = Math.round(height * ratio);
    canvas.style.width = `${width}px`;
    canvas.style.height = `${height}px`;
  }
  const context = canvas.getContext("2d");
  context?.setTransform(ratio, 0, 0, ratio, 0, 0);
  context?.clearRect(0, 0, width, height);
  return context;
}

export class Painter {
  constructor(
    private readonly on: CanvasRenderingContext2D,
    private readonly axis: Axis,
    private readonly window: Window,
    private readonly width: number,
    private readonly now: number,
    private readonly colours: Colours,
  ) {}

  x(instant: number): number {
    return ((this.axis.at(instant) - this.window.from) / (this.window.to - this.window.from)) * this.width;
  }

  /** Lines through all rows: a light one for each tick, a strong one where the job changed hands. */
  grid(height: number, stretches: readonly Stretch[]): void {
    const { on, colours } = this;
    on.lineWidth = 1;
    on.strokeStyle = colours.rule;
    on.beginPath();
    for (const tick of this.ticks()) {
      const x = Math.round(this.x(tick)) + 0.5;
      on.moveTo(x, 0);
      on.lineTo(x, height);
    }
    on.stroke();
    for (const stretch of stretches) {
      if (stretch.kind === "waits") {
        const from = this.x(stretch.from);
        this.hatch(from, 0, this.x(stretch.to ?? this.now) - from, height, colours.rule);
      }
      if (!stretch.takeover) continue;
      on.strokeStyle = colours.warn;
      on.lineWidth = 1.5;
      on.setLineDash([5, 3]);
      on.beginPath();
      const x = Math.round(this.x(stretch.from)) + 0.5;
      on.moveTo(x, 0);
      on.lineTo(x, height);
      on.stroke();
      on.setLineDash([]);
    }
  }

  private ticks(): number[] {
    return ticksOf(this.axis, this.window.from, this.window.to, Math.max(Math.floor(this.width / 110), 2));
  }

  /** The ruler, and below it who drove the job when. */
  head(start: number, stretches: readonly Stretch[]): void {
    const { on, colours } = this;
    on.font = `11px ${colours.font}`;
    on.textBaseline = "middle";
    let free = Number.NEGATIVE_INFINITY;
    for (const tick of this.ticks()) {
      const text = tick === start ? "0" : `+${lengthOf(tick - start)}`;
      const x = Math.min(Math.max(this.x(tick), 2), this.width - on.measureText(text).width - 2);
      if (x < free) continue;
      on.fillStyle = colours.ink3;
      on.fillText(text, x, 9);
      free = x + on.measureText(text).width + 12;
    }
    stretches.forEach((stretch) => this.stretch(stretch));
  }

  private stretch(stretch: Stretch): void {
    const { on, colours } = this;
    const from = Math.max(this.x(stretch.from), -4);
    const wide = Math.max(Math.min(this.x(stretch.to ?? this.now), this.width + 4) - from, 1);
    if (from > this.width || from + wide < 0) return;
    if (stretch.kind === "waits") {
      this.hatch(from, 20, wide, 18, colours.wait);
      this.fitted(visible(stretch.text), from, wide, 29, colours.ink3, true);
      return;
    }
    on.globalAlpha = 0.18;
    on.fillStyle = colours.accent;
    on.fillRect(from, 20, wide, 18);
    on.globalAlpha = 1;
    on.fillStyle = stretch.takeover ? colours.warn : colours.accent;
    on.fillRect(from, 20, 3, 18);
    const said = `fence ${fenceOf(stretch.fence)} · ${visible(shortWorker(stretch.worker))}`;
    this.fitted(said, from + 3, wide - 3, 29, colours.ink);
  }

  private fitted(text: string, x: number, wide: number, y: number, colour: string, ground = false): void {
    const { on } = this;
    if (wide < 24) return;
    on.save();
    on.beginPath();
    on.rect(x, y - 10, wide - 4, 20);
    on.clip();
    on.fillStyle = this.colours.sheet;
    on.globalAlpha = ground ? 0.85 : 0;
    on.fillRect(Math.max(x, 0) + 2, y - 8, on.measureText(text).width + 6, 16);
    on.globalAlpha = 1;
    on.fillStyle = colour;
    on.fillText(text, Math.max(x, 0) + 5, y);
    on.restore();
  }

  row(row: Row, y: number, high: number): void {
    if (row.kind === "scope") this.scope(row, y, high);
    else if (row.span) this.span(row.span, y, high);
    else if (row.seam) this.seam(row, y, high);
  }

  private scope(row: Row, y: number, high: number): void {
    const { on, colours } = this;
    const from = this.x(row.start);
    const wide = Math.max(this.x(row.end ?? this.now) - from, 2);
    if (row.folded) {
      for (const one of row.spans ?? []) this.span(one, y, high);
      return;
    }
    on.fillStyle = colours.ink3;
    on.globalAlpha = 0.35;
    on.fillRect(from, y + high / 2 - 1, wide, 2);
    on.fillRect(from, y + high / 2 - 4, 1.5, 8);
    on.fillRect(from + wide - 1.5, y + high / 2 - 4, 1.5, 8);
    on.globalAlpha = 1;
  }

  private span(span: Span, y: number, high: number): void {
    const { on, colours } = this;
    const from = this.x(span.start_at);
    const wide = Math.max(this.x(span.end_at ?? this.now) - from, 3);
    if (from > this.width || from + wide < 0) return;
    const colour = colourOf(span, colours);
    const top = y + 6;
    const tall = high - 12;
    if (span.kind === "sleep" || span.kind === "approval") this.hatch(from, top, wide, tall, colour, true);
    else if (span.start_known) this.solid(from, top, wide, tall, colour, span.end_at === null);
    else this.dotted(from, top, wide, tall, colour);
    on.fillStyle = colours.ink;
    for (const sent of span.sent_at) on.fillRect(Math.round(this.x(sent)), top - 2, 2, tall + 4);
    if (span.outcome === "uncertain" || WRONG.has(span.outcome)) {
      on.strokeStyle = colour;
      on.lineWidth = 1.5;
      on.strokeRect(from - 1.5, top - 1.5, wide + 3, tall + 3);
    }
  }

  private solid(x: number, y: number, wide: number, tall: number, colour: string, open: boolean): void {
    const { on } = this;
    on.fillStyle = colour;
    on.globalAlpha = open ? 0.55 : 1;
    on.beginPath();
    on.roundRect(x, y, wide, tall, Math.min(2.5, wide / 2));
    on.fill();
    on.globalAlpha = 1;
  }

  /** A read leaves no mark when it begins: the bar starts where it can have begun at the earliest. */
  private dotted(x: number, y: number, wide: number, tall: number, colour: string): void {
    const { on } = this;
    const middle = y + tall / 2;
    on.strokeStyle = colour;
    on.lineWidth = 2;
    on.setLineDash([2, 3]);
    on.beginPath();
    on.moveTo(Math.max(x, -5), middle);
    on.lineTo(Math.min(x + wide - 3, this.width + 5), middle);
    on.stroke();
    on.setLineDash([]);
    on.fillStyle = colour;
    on.fillRect(x + wide - 4, y, 4, tall);
  }

  private hatch(x: number, y: number, wide: number, tall: number, colour: string, framed = false): void {
    const { on } = this;
    const left = Math.max(x, -tall);
    const right = Math.min(x + wide, this.width + tall);
    if (right <= left) return;
    on.save();
    on.beginPath();
    on.rect(left, y, right - left, tall);
    on.clip();
    on.strokeStyle = colour;
    on.lineWidth = 1;
    on.beginPath();
    // Lines lie on a lattice of the canvas, so they stand still when the bar grows.
    for (let at = Math.floor((left - tall) / 6) * 6; at < right; at += 6) {
      on.moveTo(at, y + tall);
      on.lineTo(at + tall, y);
    }
    on.stroke();
    on.restore();
    if (framed) {
      on.strokeStyle = colour;
      on.lineWidth = 1;
      on.strokeRect(left + 0.5, y + 0.5, Math.max(right - left - 1, 1), tall - 1);
    }
  }

  private seam(row: Row, y: number, high: number): void {
    const { on, colours } = this;
    const x = this.x(row.start);
    const kind = row.seam?.kind ?? "";
    const strong = ["takeover", "dead_letter", "parked", "stalled"].includes(kind);
    if (row.end !== null || kind === "waiting") {
      const wide = this.x(row.end ?? this.now) - x;
      if (wide > 3) this.hatch(x, y + 7, wide, high - 14, colours.wait, true);
    }
    on.fillStyle = strong ? (kind === "takeover" ? colours.warn : colours.bad) : colours.ink3;
    on.beginPath();
    on.moveTo(x, y + high / 2 - 5);
    on.lineTo(x + 5, y + high / 2);
    on.lineTo(x, y + high / 2 + 5);
    on.lineTo(x - 5, y + high / 2);
    on.fill();
  }
}

/** A restore begins a new epoch above 2³²; people count within one. */
export function fenceOf(fence: number): string {
  const epoch = Math.floor(fence / 2 ** 32);
  const within = fence % 2 ** 32;
  return epoch > 1 ? `${epoch}.${within}` : String(within);
}
