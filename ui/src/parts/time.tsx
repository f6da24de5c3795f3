// Times: relative, with the exact one on hover and for machines.

import type { JSX } from "preact";
import { store, useStore } from "../core/store";
import { ago, exact, iso, nowUs, span } from "../text/times";

const ticking = store(nowUs());
setInterval(() => {
  if (document.visibilityState === "visible") ticking.set(nowUs());
}, 1000);

export const useNow = (): number => useStore(ticking);

export function Ago({ at, class: name }: { at: number; class?: string }): JSX.Element {
  const now = useNow();
  return (
    <time class={name} dateTime={iso(at)} title={exact(at)}>
      {ago(at, now)}
    </time>
  );
}

/** How long it took, or takes so far. */
export function Took({ from, to }: { from: number; to: number | null }): JSX.Element {
  const now = useNow();
  return <span title={`from ${exact(from)}${to === null ? "" : ` to ${exact(to)}`}`}>{span((to ?? now) - from)}</span>;
}
