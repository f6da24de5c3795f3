// The jobs, row by row.

import type { JSX } from "preact";
import { useEffect, useRef } from "preact/hooks";
import { href } from "../core/router";
import type { JobRecord } from "../core/types";
import { JobLink, State, Who } from "../parts/common";
import { Foreign } from "../parts/text";
import { Ago } from "../parts/time";
import { visible } from "../text/visible";
import { count, plural } from "../text/words";

interface RowsProps {
  jobs: readonly JobRecord[];
  at: number;
  chosen: ReadonlyMap<string, JobRecord>;
  choose(job: JobRecord, on: boolean): void;
}

export function Rows({ jobs, at, chosen, choose }: RowsProps): JSX.Element {
  const table = useRef<HTMLTableSectionElement>(null);
  useEffect(() => {
    if (at >= 0) table.current?.rows[at]?.scrollIntoView({ block: "nearest" });
  }, [at]);
  const hasWorkers = jobs.some((job) => job.worker !== undefined);
  const hasChanged = jobs.some((job) => job.changed_at !== undefined);
  return (
    <div class="table">
      <table class="jobs">
        <thead>
          <tr>
            <th>
              <span class="sr">selected</span>
            </th>
            <th>kind</th>
            <th>state</th>
            <th class="mid">job</th>
            <th class="wide">queue</th>
            <th class="wide">session</th>
            {hasWorkers && <th class="wide">worker</th>}
            <th class="num wide">events</th>
            {hasChanged && <th class="num wide">changed</th>}
            <th class="num">age</th>
          </tr>
        </thead>
        <tbody ref={table}>
          {jobs.map((job, nth) => (
            <tr key={job.job_id} class={nth === at ? "here" : ""} aria-current={nth === at ? "true" : undefined}>
              <td class="tick">
                <input
                  type="checkbox"
                  aria-label={`Select ${visible(job.job_id)}`}
                  checked={chosen.has(job.job_id)}
                  onChange={(event) => choose(job, event.currentTarget.checked)}
                />
              </td>
              <td>
                <a href={href(["jobs", job.job_id])}>
                  <Foreign text={job.kind} most={40} />
                </a>
              </td>
              <td>
                <State status={job.status} reason={job.wait_reason} />
                {(job.takeovers ?? 0) > 0 && (
                  <span class="small warned mid" title="Its workers died or lost it so many times without progress">
                    {" "}
                    {plural(job.takeovers ?? 0, "takeover")}
                  </span>
                )}
              </td>
              <td class="mid">
                <JobLink id={job.job_id} />
                {job.parent_job_id && (
                  <a class="dim small" href={href(["jobs", job.parent_job_id])}>
                    {" "}
                    child
                  </a>
                )}
              </td>
              <td class="wide dim">
                <Foreign text={job.queue} most={24} />
              </td>
              <td class="wide">
                {job.session_id && (
                  <a href={href(["sessions", job.session_id])}>
                    <Foreign text={job.session_id} most={24} />
                  </a>
                )}
              </td>
              {hasWorkers && <td class="wide dim">{job.worker && <Who worker={job.worker} />}</td>}
              <td class="num wide dim">{count(job.head_seq)}</td>
              {hasChanged && (
                <td class="num wide dim">{job.changed_at !== undefined && <Ago at={job.changed_at} />}</td>
              )}
              <td class="num">
                <Ago at={job.created_at} />
              </td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}
