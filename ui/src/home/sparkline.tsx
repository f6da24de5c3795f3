// A row of small bars: how it went, minute by minute.

import type { JSX } from "preact";
import { count } from "../text/words";

export function Sparkline({
  points,
  tone,
  label,
}: {
  points: readonly number[];
  tone: "good" | "bad" | "busy";
  label: string;
}): JSX.Element {
  const most = Math.max(...points, 1);
  const wide = 100 / Math.max(points.length, 1);
  return (
    <svg
      class={`strip ${tone}`}
      viewBox="0 0 100 20"
      preserveAspectRatio="none"
      role="img"
      aria-label={`${label}; at most ${count(most)}`}
    >
      {points.map((n, nth) => {
        const high = n === 0 ? 0.6 : Math.max((n / most) * 20, 1.5);
        return <rect key={nth} x={nth * wide} y={20 - high} width={Math.max(wide - 0.4, 0.4)} height={high} />;
      })}
    </svg>
  );
}
