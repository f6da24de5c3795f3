// Jobs: a list that is live, filters that are in the address, and words to many at once.

import type { JSX } from "preact";
import { useEffect, useState } from "preact/hooks";
import { useKeys } from "../core/keys";
import { useJobsPoll } from "../core/job_feed";
import { ask, go, href, usePlace } from "../core/router";
import type { JobRecord, Page } from "../core/types";
import { FirstJob, Loading, Trouble } from "../parts/common";
import { plural } from "../text/words";
import { Bulk } from "./bulk";
import { Counts } from "./counts";
import { asked, filterIn, isFiltered } from "./filter";
import { Filters } from "./filters";
import { Rows } from "./rows";

const LIMIT = 50;

export function JobsPage(): JSX.Element {
  const { query } = usePlace();
  const filter = filterIn(query);
  const cursor = query.get("cursor");
  const address = `/api/jobs${asked(filter, { limit: LIMIT, cursor })}`;
  const page = useJobsPoll<Page<JobRecord>>(address, 2000);
  const jobs = page.value?.items ?? [];
  const [at, setAt] = useState(-1);
  const [chosen, setChosen] = useState<ReadonlyMap<string, JobRecord>>(new Map());
  const named = JSON.stringify(filter);
  useEffect(() => setChosen(new Map()), [named]);
  useEffect(() => setAt(-1), [named, cursor]);

  const choose = (job: JobRecord, on: boolean): void =>
    setChosen((before) => {
      const next = new Map(before);
      if (on) next.set(job.job_id, job);
      else next.delete(job.job_id);
      return next;
    });
  const move = (by: number): void => setAt((before) => Math.min(Math.max(before + by, 0), jobs.length - 1));
  const here = jobs[at];
  useKeys([
    { keys: "j", what: "next job", do: () => move(1) },
    { keys: "k", what: "previous job", do: () => move(-1) },
    { keys: "Enter", what: "open it", do: () => here && go(href(["jobs", here.job_id])) },
    { keys: "x", what: "select it", do: () => here && choose(here, !chosen.has(here.job_id)) },
    { keys: "/", what: "search", do: () => document.getElementById("filter-text")?.focus() },
    { keys: "Escape", what: "clear the selection", do: () => setChosen(new Map()) },
  ]);
  return (
    <>
      <header class="section">
        <h1>Jobs</h1>
        <Counts filter={filter} />
      </header>
      <Filters filter={filter} />
      {page.problem && <Trouble problem={page.problem} again={page.again} />}
      {page.value === null && !page.problem && <Loading what="jobs" />}
      {page.value && jobs.length === 0 && <Nothing filtered={isFiltered(filter) || cursor !== null} />}
      {jobs.length > 0 && (
        <>
          <Bulk filter={filter} shown={jobs} chosen={chosen} setChosen={setChosen} more={page.value?.next !== null} />
          <Rows jobs={jobs} at={at} chosen={chosen} choose={choose} />
          <div class="row end">
            {cursor !== null && (
              <button type="button" onClick={() => ask({ cursor: null })}>
                Newest
              </button>
            )}
            {page.value?.next && (
              <button type="button" onClick={() => ask({ cursor: page.value?.next ?? null })}>
                Older
              </button>
            )}
            <span class="dim small">{plural(jobs.length, "job")} on this page</span>
          </div>
        </>
      )}
    </>
  );
}

function Nothing({ filtered }: { filtered: boolean }): JSX.Element {
  if (filtered) {
    return (
      <div class="empty">
        <p>
          <b>No job matches.</b> <a href="/jobs">Show all jobs</a>
        </p>
      </div>
    );
  }
  return (
    <div class="empty">
      <p>
        <b>There are no jobs yet.</b> Create the first one:
      </p>
      <FirstJob />
    </div>
  );
}
