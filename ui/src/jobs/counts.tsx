// How many of each status, each a link to just those.

import type { JSX } from "preact";
import { useJobsPoll } from "../core/job_feed";
import { href } from "../core/router";
import { STATUSES, count, statusTone } from "../text/words";
import { type Filter, asked } from "./filter";

interface Counted {
  total: number;
  by_status: Record<string, number>;
}

export function Counts({ filter }: { filter: Filter }): JSX.Element | null {
  const { status, wait_reason: _reason, ...rest } = filter;
  const counted = useJobsPoll<Counted>(`/api/tally${asked(rest)}`, 5000);
  if (counted.value === null) return null;
  const { total, by_status: found } = counted.value;
  return (
    <nav class="counts" aria-label="Jobs by status">
      <a href={href(["jobs"], rest)} aria-current={status === undefined ? "true" : undefined}>
        all <b>{count(total)}</b>
      </a>
      {STATUSES.map((name) => (
        <a
          key={name}
          class={statusTone(name)}
          href={href(["jobs"], { ...rest, status: name })}
          aria-current={status === name ? "true" : undefined}
        >
          <i aria-hidden="true" />
          {name} <b>{count(found[name] ?? 0)}</b>
        </a>
      ))}
    </nav>
  );
}
