// One worker: what it can do, what it does, and whether it is still heard.

import type { JSX } from "preact";
import { at, post } from "../core/api";
import { problemIn } from "../core/polling";
import type { JobRecord, Worker } from "../core/types";
import { Copy, JobLink, Pill } from "../parts/common";
import { askPerson } from "../parts/dialog";
import { Foreign } from "../parts/text";
import { Ago } from "../parts/time";
import { say, sayProblem } from "../parts/toasts";
import { type Tone, workerState } from "../text/words";
import { Heartbeats } from "./heartbeats";

const BEAT_US = 10 * 1_000_000;
const TONES: Record<string, Tone> = { here: "good", lost: "bad", gone: "quiet" };

export function WorkerRow({
  worker,
  jobs,
  again,
}: {
  worker: Worker;
  jobs: readonly JobRecord[];
  again(): void;
}): JSX.Element {
  const asked = worker.drain_asked_at !== null && !worker.draining;
  const full = Math.min(worker.holds / Math.max(worker.concurrency, 1), 1);
  return (
    <article class="worker sheet">
      <header class="row">
        <h3 class="mono">
          <Foreign text={worker.label} most={60} />
        </h3>
        <Copy text={worker.worker} what="full name" />
        <Pill tone={worker.draining ? "warn" : (TONES[worker.state] ?? "plain")}>
          {worker.draining ? "draining" : workerState(worker.state)}
        </Pill>
        <span class="dim small">
          started <Ago at={worker.started_at} />, last heartbeat <Ago at={worker.seen_at} />
        </span>
        {asked && (
          <span class="small warned">
            drain requested <Ago at={worker.drain_asked_at ?? 0} />; starts with its next heartbeat
          </span>
        )}
        {worker.drains && !asked && !worker.draining && (
          <button type="button" class="end" onClick={() => void drain(worker, again)}>
            Drain
          </button>
        )}
      </header>
      <Heartbeats who={worker.worker} every_us={BEAT_US} since={worker.seen_at} />
      <div class="row load">
        <meter
          min={0}
          max={worker.concurrency}
          value={worker.holds}
          aria-label={`${worker.holds} of ${worker.concurrency} slots`}
          class={full > 0.9 ? "full" : ""}
        />
        <span class="small">
          {worker.holds} of {worker.concurrency} slots used
        </span>
        {jobs.slice(0, 6).map((job) => (
          <span key={job.job_id} class="small">
            <Foreign text={job.kind} most={30} /> <JobLink id={job.job_id} />
          </span>
        ))}
      </div>
      <p class="small dim">
        <Names title="kinds" names={[...new Set([...worker.kinds, ...worker.sessions.map((one) => one.name)])]} />
        <Names title="queues" names={worker.queues} />
        <Names title="capabilities" names={worker.capabilities} />
      </p>
    </article>
  );
}

async function drain(worker: Worker, again: () => void): Promise<void> {
  const given = await askPerson({
    title: `Drain ${worker.label}?`,
    body: `It claims nothing more, lets the calls that run come to their end, gives ${
      worker.holds === 1 ? "its job" : "its jobs"
    } back between two calls, and ends. What keeps it running may start another in its place.`,
    confirm: "Drain",
    why: "required",
    whyLike: "the machine is needed",
    kept: "audit log",
    signed: true,
  });
  if (given === null) return;
  try {
    await post<Worker>(at`/api/workers/${worker.worker}/drain`, { why: given.why ?? "", by: given.by ?? "" });
    say("Drain requested: the worker stops after its next heartbeat.");
    again();
  } catch (error) {
    sayProblem(problemIn(error));
  }
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
