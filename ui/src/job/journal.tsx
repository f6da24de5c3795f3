// The journal, event by event, and the verification of its hash chain.

import type { JSX } from "preact";
import { useState } from "preact/hooks";
import { at } from "../core/api";
import { usePoll } from "../core/polling";
import { ask, usePlace } from "../core/router";
import type { Checked, Job, JournalEvent } from "../core/types";
import { Copy, Loading, Pill, Trouble } from "../parts/common";
import { Foreign, Value } from "../parts/text";
import { clock, exact, iso } from "../text/times";
import { compact } from "../text/exact";
import { visible } from "../text/visible";
import { count, isOver, plural } from "../text/words";
import { fenceOf } from "./painter";

const PAGE = 200;

interface Events {
  items: readonly JournalEvent[];
  next: number | null;
}

export function Journal({ job }: { job: Job }): JSX.Element {
  const { query } = usePlace();
  const after = Math.max(Number(query.get("after") ?? 0) || 0, 0);
  const events = usePoll<Events>(
    at`/api/jobs/${job.job_id}/events?after=${after}&limit=${PAGE}`,
    isOver(job.status) ? null : 2000,
  );
  return (
    <section>
      <header class="section">
        <h2>{plural(job.events, "event")}</h2>
        <Chain job={job} />
      </header>
      {events.problem && <Trouble problem={events.problem} again={events.again} />}
      {events.value === null && !events.problem && <Loading what="events" />}
      {events.value && (
        <div class="table">
          <table class="journal">
            <thead>
              <tr>
                <th class="num">seq</th>
                <th>at</th>
                <th>type</th>
                <th class="num wide">fence</th>
                <th>body</th>
                <th class="wide">hash</th>
              </tr>
            </thead>
            <tbody>
              {events.value.items.map((event) => (
                <Line key={event.seq} event={event} />
              ))}
            </tbody>
          </table>
        </div>
      )}
      <div class="row end">
        {after > 0 && (
          <button type="button" onClick={() => ask({ after: Math.max(after - PAGE, 0) || null })}>
            Previous
          </button>
        )}
        {events.value?.next && (
          <button type="button" onClick={() => ask({ after: events.value?.next ?? null })}>
            Next
          </button>
        )}
      </div>
    </section>
  );
}

function Line({ event }: { event: JournalEvent }): JSX.Element {
  const [open, setOpen] = useState(false);
  return (
    <>
      <tr>
        <td class="num mono">
          <button
            type="button"
            class="link"
            title="Show the job as of this event"
            onClick={() => ask({ seq: event.seq, view: null })}
          >
            {event.seq}
          </button>
        </td>
        <td class="mono small">
          <time dateTime={iso(event.at)} title={exact(event.at)}>
            {clock(event.at)}
          </time>
        </td>
        <td class="mono">{event.type}</td>
        <td class="num mono wide dim" title={String(event.fence)}>
          {fenceOf(event.fence)}
        </td>
        <td class="body">
          {event.body === null ? (
            <span class="dim">erased; the hash chain stays intact</span>
          ) : (
            <button type="button" class="link mono small" aria-expanded={open} onClick={() => setOpen(!open)}>
              <Foreign text={compact(event.body)} most={140} />
            </button>
          )}
        </td>
        <td class="mono small wide dim" title={event.hash}>
          {event.hash.slice(0, 10)}
        </td>
      </tr>
      {open && (
        <tr>
          <td colSpan={6}>
            <Value value={event.body} />
            <p class="small dim mono">
              {event.hash} <Copy text={event.hash} what="hash" />
            </p>
          </td>
        </tr>
      )}
    </>
  );
}

/** Each event's hash covers the one before: recomputed from the first, by the server. */
function Chain({ job }: { job: Job }): JSX.Element {
  const checked = usePoll<Checked>(at`/api/jobs/${job.job_id}/verify`, null);
  if (checked.value === null)
    return <span class="dim small">{checked.problem ? visible(checked.problem.detail) : "verifying the hash chain …"}</span>;
  const wrong = checked.value.violations;
  return (
    <div class="row">
      {wrong.length === 0 ? (
        <Pill tone="good">hash chain intact, {count(checked.value.events)} events</Pill>
      ) : (
        <Pill tone="bad">hash chain broken</Pill>
      )}
      {wrong.map((one) => (
        <Foreign key={one} text={one} most={300} class="warned small" />
      ))}
      <button type="button" class="quiet" onClick={checked.again}>
        Verify again
      </button>
    </div>
  );
}
