// Running jobs, and the latest ones.

import type { JSX } from "preact";
import { useJobsPoll } from "../core/job_feed";
import { href } from "../core/router";
import type { JobRecord, Page } from "../core/types";
import { JobLink, Section, State, Trouble } from "../parts/common";
import { Foreign } from "../parts/text";
import { Ago } from "../parts/time";
import { plural } from "../text/words";

export function Running(): JSX.Element {
  const running = useJobsPoll<Page<JobRecord>>("/api/jobs?status=running&limit=15", 2000);
  const latest = useJobsPoll<Page<JobRecord>>("/api/jobs?limit=8", 2500);
  const now = running.value?.items ?? [];
  return (
    <div class="two">
      <Section
        title="Running"
        aside={
          <a href={href(["jobs"], { status: "running" })}>
            {plural(now.length, "job")}
            {running.value?.next ? "+" : ""}
          </a>
        }
      >
        {running.problem && running.value === null && <Trouble problem={running.problem} again={running.again} />}
        {running.value && now.length === 0 ? <p class="dim">No job is running.</p> : <Jobs jobs={now} />}
      </Section>
      <Section title="Latest" aside={<a href="/jobs">all jobs</a>}>
        <Jobs jobs={latest.value?.items ?? []} />
      </Section>
    </div>
  );
}

function Jobs({ jobs }: { jobs: readonly JobRecord[] }): JSX.Element | null {
  if (jobs.length === 0) return null;
  return (
    <div class="table">
      <table>
        <tbody>
          {jobs.map((job) => (
            <tr key={job.job_id}>
              <td>
                <a href={href(["jobs", job.job_id])}>
                  <Foreign text={job.kind} most={40} />
                </a>{" "}
                <span class="dim small">
                  <JobLink id={job.job_id} />
                </span>
              </td>
              <td>
                <State status={job.status} reason={job.wait_reason} />
              </td>
              <td class="num dim">
                <Ago at={job.created_at} />
              </td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}
