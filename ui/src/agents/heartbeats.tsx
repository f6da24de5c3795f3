// Heartbeats as a strip: a mark for each beat that was seen while the page was open, oldest left.

import type { JSX } from "preact";
import { useNow } from "../parts/time";
import { span } from "../text/times";

const KEPT_US = 5 * 60 * 1_000_000;

// By who beats. Kept while the page lives, so that going away and coming back does not forget.
const seen = new Map<string, number[]>();

/** Notes a beat; the same one again is one beat. */
export function note(who: string, at: number): void {
  const beats = seen.get(who) ?? [];
  if (beats.at(-1) === at) return;
  seen.set(who, [...beats.filter((one) => one > at - KEPT_US && one < at), at]);
}

export function Heartbeats({ who, every_us, since }: { who: string; every_us: number; since: number }): JSX.Element {
  const now = useNow();
  const beats = (seen.get(who) ?? []).filter((one) => one > now - KEPT_US);
  const last = beats.at(-1) ?? since;
  const late = now - last > 3 * every_us;
  const words = `last heartbeat ${span(now - last)} ago; expected every ${span(every_us)}, lost after three missed`;
  return (
    <svg
      class={`beats ${late ? "late" : ""}`}
      viewBox="0 0 100 16"
      preserveAspectRatio="none"
      role="img"
      aria-label={words}
    >
      <title>{words}</title>
      <line x1={0} x2={100} y1={8} y2={8} />
      {beats.map((one) => (
        <rect key={one} x={100 - ((now - one) / KEPT_US) * 100 - 0.4} y={2} width={0.8} height={12} />
      ))}
    </svg>
  );
}
