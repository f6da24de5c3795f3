// One worker: what it can do, what it does, and whether it is still heard.

import type { JSX } from "preact";
import type { JobRecord, Worker } from "../core/shapes";
import { Copy, JobLink, Pill } from "../parts/bits";
import { Foreign } from "../parts/text";
import { Ago } from "../parts/time";
import type { Tone } from "../text/words";
import { Beats } from "./beats";

const BEAT_US = 10 * 1_000_000;
const TONES: Record<string, Tone> = { here: "good", lost: "bad", gone: "quiet" };

export function WorkerRow({ worker, jobs }: { worker: Worker; jobs: readonly JobRecord[] }): JSX.Element {
  const full = Math.min(worker.holds / Math.max(worker.concurrency, 1), 1);
  return (
    <article class="worker sheet">
      <header class="row">
        <h3 class="mono">
          <Foreign text={worker.label} most={60} />
        </h3>
        <Copy text={worker.worker} what="name in journals" />
        <Pill tone={worker.draining ? "warn" : (TONES[worker.state] ?? "plain")}>
          {worker.draining ? "drains" : worker.state}
        </Pill>
        <span class="dim small">
          up since <Ago at={worker.started_at} />, heard <Ago at={worker.seen_at} />
        </span>
      </header>
      <Beats who={worker.worker} every_us={BEAT_US} since={worker.seen_at} />
      <div class="row load">
        <meter
          min={0}
          max={worker.concurrency}
          value={worker.holds}
          aria-label={`${worker.holds} of ${worker.concurrency} slots`}
          class={full > 0.9 ? "full" : ""}
        />
        <span class="small">
          holds {worker.holds} of {worker.concurrency}
        </span>
        {jobs.slice(0, 6).map((job) => (
          <span key={job.job_id} class="small">
            <Foreign text={job.kind} most={30} /> <JobLink id={job.job_id} />
          </span>
        ))}
      </div>
      <p class="small dim">
        <Names title="kinds" names={[...worker.kinds, ...worker.sessions.map((one) => one.name)]} />
        <Names title="queues" names={worker.queues} />
        <Names title="capabilities" names={worker.capabilities} />
      </p>
    </article>
  );
}

function Names({ title, names }: { title: string; names: readonly string[] }): JSX.Element | null {
  if (names.length === 0) return null;
  return (
    <span class="names">
      {title}:{" "}
      {names.map((name) => (
        <span key={name}>
          <code>
            <Foreign text={name} most={40} />
          </code>{" "}
        </span>
      ))}
    </span>
  );
}
