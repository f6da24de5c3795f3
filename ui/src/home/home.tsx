// Home: what needs attention; below it running jobs and recent activity.

import type { JSX } from "preact";
import { useState } from "preact/hooks";
import { useKeys } from "../core/keys";
import { useJobsPoll } from "../core/job_feed";
import type { Need, Page } from "../core/types";
import { FirstJob, Loading, Section, Trouble } from "../parts/common";
import { RecentActivity } from "./recent_activity";
import { NeedCard } from "./need";
import { Running } from "./running";

interface Stats {
  totals: Record<string, number>;
}

export function Home(): JSX.Element {
  const needs = useJobsPoll<Page<Need>>("/api/needs?limit=100", 2500);
  const stats = useJobsPoll<Stats>("/api/stats", 5000);
  const nothingYet = stats.value !== null && (stats.value.totals.jobs ?? 0) === 0;
  return (
    <>
      <h1 class="visually-first">Needs attention</h1>
      <Needs
        needs={needs.value}
        problem={needs.problem && needs.value === null ? <Trouble problem={needs.problem} again={needs.again} /> : null}
        nothingYet={nothingYet}
      />
      {!nothingYet && <RecentActivity totals={stats.value?.totals ?? null} />}
      {!nothingYet && <Running />}
    </>
  );
}

function Needs({
  needs,
  problem,
  nothingYet,
}: {
  needs: Page<Need> | null;
  problem: JSX.Element | null;
  nothingYet: boolean;
}): JSX.Element {
  const [at, setAt] = useState(-1);
  const mine = needs?.items.filter((need) => need.person) ?? [];
  const move = (by: number): void => {
    const next = Math.min(Math.max(at + by, 0), mine.length - 1);
    setAt(next);
    document.querySelectorAll<HTMLElement>(".need")[next]?.focus();
  };
  useKeys([
    { keys: "j", what: "next job that needs attention", do: () => move(1) },
    { keys: "k", what: "previous one", do: () => move(-1) },
  ]);
  if (problem) return problem;
  if (needs === null) return <Loading what="jobs that need attention" />;
  if (nothingYet) {
    return (
      <div class="empty">
        <p>
          <b>There are no jobs yet.</b> Create the first one:
        </p>
        <FirstJob />
      </div>
    );
  }
  if (mine.length === 0) {
    return (
      <div class="calm sheet">
        <svg viewBox="0 0 16 16" aria-hidden="true">
          <path d="M3 8.5l3.2 3.2L13 4.8" />
        </svg>
        <div>
          <b>No job needs attention.</b>
          <p class="dim">
            Calls of unknown outcome, approvals, questions, parked and stalled jobs, used-up budgets and dead letters are listed here.
          </p>
        </div>
      </div>
    );
  }
  return (
    <Section
      title={`${mine.length}${needs.next ? "+" : ""} ${mine.length === 1 ? "job is" : "jobs are"} waiting for you`}
      aside="longest waiting first"
    >
      <div class="needs">
        {mine.map((need) => (
          <NeedCard
            key={`${need.job_id} ${need.reason} ${need.step_key ?? ""} ${need.question_id ?? ""} ${need.generation}`}
            need={need}
          />
        ))}
      </div>
    </Section>
  );
}
