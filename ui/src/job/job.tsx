// A job: what it did, when, in whose hands; what each step was asked and answered; and words to it.

import type { JSX } from "preact";
import { useEffect, useMemo } from "preact/hooks";
import { ask, here, href, usePlace } from "../core/router";
import type { Job, Trace } from "../core/types";
import { NeedCard } from "../home/need";
import { Loading, Trouble } from "../parts/common";
import { line } from "../text/visible";
import { Actions } from "./actions";
import { asOf } from "./as_of";
import { Given } from "./input_output";
import { Header } from "./header";
import { Journal } from "./journal";
import { PlanView } from "./plan";
import { useJob } from "./job_polling";
import { Recovery } from "./recovery";
import { type Row, seamId, spanId } from "./rows";
import { OutputStream } from "./output_stream";
import { Slider } from "./slider";
import { StepPane } from "./step";
import { StepTable } from "./table";
import { Waterfall } from "./waterfall";

const VIEWS = [
  ["timeline", "Timeline"],
  ["table", "Table"],
  ["journal", "Journal"],
  ["given", "Input and output"],
] as const;

export function JobPage({ id }: { id: string }): JSX.Element {
  const { job, trace } = useJob(id);
  useEffect(() => {
    if (job.value) document.title = `${line(job.value.kind, 60)} · ${job.value.status} · Holdfast`;
  }, [job.value]);
  if (job.value === null && job.problem) {
    return (
      <>
        <h1>{job.problem.status === 404 ? "Job not found" : "The job cannot be shown"}</h1>
        <Trouble problem={job.problem} again={job.again} />
      </>
    );
  }
  if (job.value === null && trace.value === null) return <Loading what="the job" />;
  const needs = job.value?.needs.filter((need) => need.person) ?? [];
  return (
    <>
      <Header id={id} job={job.value} trace={trace.value} />
      {job.value && <Actions job={job.value} />}
      {needs.length > 0 && (
        <section aria-labelledby="needs-title">
          <h2 id="needs-title" class="sr">
            Needs attention
          </h2>
          <div class="needs">
            {needs.map((need) => (
              <NeedCard
                key={`${need.reason} ${need.step_key ?? ""} ${need.question_id ?? ""}`}
                need={need}
                linked={false}
              />
            ))}
          </div>
        </section>
      )}
      {job.problem && <Trouble problem={job.problem} again={job.again} />}
      {trace.problem && trace.value === null && <Trouble problem={trace.problem} again={trace.again} />}
      {trace.value ? <Life job={job.value} trace={trace.value} /> : !trace.problem && <Loading what="the timeline" />}
    </>
  );
}

/** What the job did. It is shown as soon as it is there: how the job stands may come a moment later. */
function Life({ job, trace }: { job: Job | null; trace: Trace }): JSX.Element {
  const { query } = usePlace();
  const view = query.get("view") ?? "timeline";
  const most = useMemo(() => Math.max(job?.events ?? 0, lastSeq(trace)), [job, trace]);
  const asked = Number(query.get("seq") ?? most);
  const seq = Number.isInteger(asked) && asked >= 1 ? Math.min(asked, most) : most;
  const past = query.has("seq") && seq < most;
  const shown = useMemo(() => (past ? asOf(trace, seq) : trace), [trace, seq, past]);
  const chosen = chosenIn(shown, query.get("step"));
  const choose = (row: Row): void => ask({ step: row.id }, { replace: true });
  const span = useMemo(() => shown.spans.find((one) => spanId(one) === chosen) ?? null, [shown, chosen]);
  const seam = useMemo(() => shown.seams.find((one) => seamId(one) === chosen) ?? null, [shown, chosen]);
  return (
    <>
      <Recovery trace={shown} choose={(step) => ask({ step, view: null })} />
      <nav class="tabs" aria-label="Views of the job">
        {VIEWS.map(([name, words]) => (
          <a
            key={name}
            href={href(here().path, { ...Object.fromEntries(query), view: name === "timeline" ? null : name })}
            aria-current={view === name ? "true" : undefined}
          >
            {words}
          </a>
        ))}
      </nav>
      {view === "journal" && job && <Journal job={job} />}
      {view === "given" && job && <Given job={job} />}
      {(view === "timeline" || view === "table") && (
        <div class="life">
          <div class="life-main">
            <Slider seq={seq} most={most} past={past} at={shown.end_at} status={shown.status} />
            {view === "table" ? (
              <StepTable trace={shown} chosen={chosen} choose={choose} />
            ) : (
              <Waterfall
                key={trace.job_id}
                trace={shown}
                chosen={chosen}
                choose={choose}
                live={!past && !trace.over}
              />
            )}
            {shown.plans.map((plan) => (
              <PlanView
                key={plan.plan_id}
                plan={plan}
                choose={(node) => ask({ step: `node:${plan.plan_id}/${node}` }, { replace: true })}
              />
            ))}
            {!past && <OutputStream jobId={trace.job_id} over={trace.over} />}
          </div>
          <StepPane jobId={trace.job_id} job={job} span={span} seam={seam} past={past} />
        </div>
      )}
    </>
  );
}

function lastSeq(trace: Trace): number {
  let last = 1;
  for (const seam of trace.seams) last = Math.max(last, seam.seq);
  for (const span of trace.spans) last = Math.max(last, span.end_seq ?? span.seq);
  return last;
}

/** The chosen row: by its own id, or a step key as other pages link to it. */
function chosenIn(trace: Trace, said: string | null): string | null {
  if (said === null) return null;
  if (/^(seam|scope):/.test(said)) return said;
  const exact = trace.spans.find((span) => spanId(span) === said);
  const found = exact ?? [...trace.spans].reverse().find((span) => span.step_key === said);
  return found ? spanId(found) : said;
}
