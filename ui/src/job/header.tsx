// The job's name, status and figures.

import type { JSX } from "preact";
import { useMemo } from "preact/hooks";
import { href } from "../core/router";
import type { Budget, Job, Trace } from "../core/types";
import { Copy, Facts, JobLink, State, Who } from "../parts/common";
import { Foreign } from "../parts/text";
import { Ago, Took } from "../parts/time";
import { span as lengthOf } from "../text/times";
import { cost, count, money, plural } from "../text/words";

export function Header({ id, job, trace }: { id: string; job: Job | null; trace: Trace | null }): JSX.Element {
  return (
    <header class="job-head">
      <div class="row">
        <h1>
          <Foreign text={job?.kind ?? trace?.kind ?? ""} most={120} />
        </h1>
        <State status={job?.status ?? trace?.status ?? ""} reason={job?.wait_reason ?? null} />
        {job?.cancel_requested && job.ended_at === null && <span class="small warned">cancel requested</span>}
      </div>
      <p class="mono small dim id">
        <Foreign text={id} most={255} /> <Copy text={id} what="id" />
      </p>
      {job && <Standing job={job} trace={trace} />}
    </header>
  );
}

function Standing({ job, trace }: { job: Job; trace: Trace | null }): JSX.Element {
  const spent = useMemo(() => spentOn(trace), [trace]);
  return (
    <Facts
      facts={[
        ["submitted", <Ago at={job.created_at} />],
        [job.ended_at === null ? "age" : "took", <Took from={job.created_at} to={job.ended_at} />],
        [
          "worker",
          job.worker ? (
            <Who worker={job.worker} />
          ) : job.last_worker ? (
            <span class="dim">
              last <Who worker={job.last_worker} />
            </span>
          ) : null,
        ],
        ["claims", trace && claimsOf(trace)],
        ["reads", count(job.steps)],
        [
          "side effects",
          Object.entries(job.calls)
            .map(([status, n]) => `${n} ${status.replaceAll("_", " ")}`)
            .join(", "),
        ],
        ["tokens", spent.tokens > 0 && count(spent.tokens)],
        ["cost", spent.tokens > 0 && cost(spent.micros, spent.isUnpriced)],
        ["queue", <Foreign text={job.queue} most={60} />],
        ["wakes", job.wake_at !== null && job.ended_at === null && <Ago at={job.wake_at} />],
        [
          "session",
          job.session_id && (
            <a href={href(["sessions", job.session_id])}>
              <Foreign text={job.session_id} most={40} />
            </a>
          ),
        ],
        ["parent", job.parent_job_id && <JobLink id={job.parent_job_id} />],
        [
          "cancelled by",
          job.cancelled_by && (
            <Foreign text={`${job.cancelled_by}${job.cancelled_why ? `: ${job.cancelled_why}` : ""}`} most={200} />
          ),
        ],
        ["mailbox", job.unread > 0 && `${plural(job.unread, "message")} unread`],
        ...job.budgets.map((budget): readonly [string, JSX.Element] => [
          "budget",
          <Spent budget={budget} own={budget.budget_id === job.job_id} />,
        ]),
      ]}
    />
  );
}

/** `5 (3 takeovers)`. */
function claimsOf(trace: Trace): string {
  const claims = trace.seams.filter((seam) => seam.kind === "claimed" || seam.kind === "takeover").length;
  const takeovers = trace.seams.filter((seam) => seam.kind === "takeover").length;
  if (claims === 0) return "none yet";
  return takeovers === 0 ? count(claims) : `${count(claims)} (${plural(takeovers, "takeover")})`;
}

function spentOn(trace: Trace | null): { tokens: number; micros: number; isUnpriced: boolean } {
  let tokens = 0;
  let micros = 0;
  let isUnpriced = false;
  for (const { usage } of trace?.spans ?? []) {
    if (!usage || usage.cached) continue;
    tokens += (usage.input ?? 0) + (usage.output ?? 0);
    micros += usage.usd_micros ?? 0;
    isUnpriced ||= typeof usage.usd_micros !== "number";
  }
  return { tokens, micros, isUnpriced };
}

const UNITS: Record<string, readonly [(amount: number) => string, string]> = {
  usd_micros: [money, "spent"],
  tokens: [count, "tokens"],
  tool_calls: [count, "tool calls"],
  wall_us: [lengthOf, "of time"],
  depth: [count, "levels of children"],
  fan_out: [count, "children of one job"],
};

function Spent({ budget, own }: { budget: Budget; own: boolean }): JSX.Element {
  const shown = Object.entries(budget.limits).map(([name, most]) => {
    const [show, words] = UNITS[name] ?? [count, name.replaceAll("_", " ")];
    const spent = budget.spent[name];
    return spent === undefined ? `at most ${show(most)} ${words}` : `${show(spent)} of ${show(most)} ${words}`;
  });
  return (
    <span>
      {shown.join(", ")}
      {!own && (
        <span class="dim">
          {" "}
          shared with <JobLink id={budget.budget_id} />
        </span>
      )}
    </span>
  );
}
