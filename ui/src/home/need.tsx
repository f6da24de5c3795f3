// A decision that waits for a person: exact arguments, evidence, and buttons.

import type { JSX } from "preact";
import { useState } from "preact/hooks";
import { href } from "../core/router";
import type { Need } from "../core/types";
import { Command, Copy, JobLink, Pill } from "../parts/common";
import { Foreign, Named, Value } from "../parts/text";
import { useNow } from "../parts/time";
import { Traceback } from "../parts/traceback";
import { exact, iso, span } from "../text/times";
import { compact } from "../text/exact";
import { errorLine, lastError } from "../text/traceback";
import { line } from "../text/visible";
import { EFFECTS, plural, shortWorker, spaced } from "../text/words";
import { type Choice, choicesFor, choose } from "./decisions";

const TITLES: Record<string, string> = {
  reconcile: "uncertain call",
  approval: "approval",
  drift: "parked: code changed",
  stalled: "stalled",
  budget: "budget used up",
  dead_letter: "dead letter",
  restore_review: "restored from backup",
  suspect: "suspect: crashes its worker",
  signal: "question",
};

const DEATHS: ReadonlySet<string> = new Set(["dead_letter", "suspect"]);

export function NeedCard({ need, linked = true }: { need: Need; linked?: boolean }): JSX.Element {
  const now = useNow();
  const [busy, setBusy] = useState(false);
  const choices = choicesFor(need, now);
  const run = async (choice: Choice): Promise<void> => {
    setBusy(true);
    try {
      await choose(choice);
    } finally {
      setBusy(false);
    }
  };
  const step = need.step_key ? href(["jobs", need.job_id], { step: need.step_key }) : href(["jobs", need.job_id]);
  return (
    <article
      class={`need sheet ${need.reason}`}
      tabIndex={-1}
      aria-label={`${TITLES[need.reason] ?? spaced(need.reason)}: ${line(need.what, 200)}`}
    >
      <header>
        <Pill tone={need.reason === "approval" || need.reason === "signal" ? "warn" : "bad"}>
          {need.question_id ? "question" : (TITLES[need.reason] ?? spaced(need.reason))}
        </Pill>
        {need.job_status === "running" && <Pill tone="busy">job is running</Pill>}
        <h3>
          <Foreign text={need.what} most={300} />
        </h3>
        <span class="aside">
          {linked && (
            <>
              <a href={step}>
                <Foreign text={need.job_kind} most={40} />
              </a>
              <JobLink id={need.job_id} />
            </>
          )}
          <time dateTime={iso(need.since)} title={`since ${exact(need.since)}`}>
            for {span(now - need.since)}
          </time>
        </span>
      </header>
      <Details need={need} now={now} />
      <div class="row">
        {choices.map((choice) => (
          <button
            key={choice.name}
            type="button"
            class={choice.tone ?? ""}
            disabled={busy || choice.notBefore !== undefined}
            title={choice.notBefore ?? choice.hint}
            onClick={() => void run(choice)}
          >
            {choice.name}
          </button>
        ))}
        {choices.map(
          (choice) =>
            choice.notBefore && (
              <span key={choice.name} class="dim small">
                {choice.notBefore}
              </span>
            ),
        )}
      </div>
      {need.commands.length > 0 && (
        <details class="typed">
          <summary class="dim small">Command line</summary>
          {need.commands.map((command) => (
            <div key={command}>
              <Command text={command} />
            </div>
          ))}
        </details>
      )}
    </article>
  );
}

function Details({ need, now }: { need: Need; now: number }): JSX.Element {
  return (
    <div class="details">
      {(need.tool || need.effect) && (
        <p class="small dim">
          {need.tool && (
            <>
              tool{" "}
              <code>
                <Foreign text={need.tool} most={80} />
              </code>
            </>
          )}
          {need.effect && <span title={EFFECTS[need.effect]}> · {spaced(need.effect)}</span>}
          {need.key && (
            <>
              {" "}
              · idempotency key{" "}
              <code>
                <Foreign text={need.key} most={80} />
              </code>{" "}
              <Copy text={need.key} what="key" />
            </>
          )}
        </p>
      )}
      {need.step_key !== null && need.args !== null && need.args !== undefined && (
        <Named name="Exact arguments" value={need.args} />
      )}
      <Evidence need={need} />
      {need.due_at !== null && (
        <p class="small dim">{need.due_at > now ? `expires in ${span(need.due_at - now)}` : "expired"}</p>
      )}
    </div>
  );
}

function Evidence({ need }: { need: Need }): JSX.Element | null {
  const found = need.evidence;
  if (found === null || found === undefined || found === "") return null;
  if (need.question_id) return null; // its schema: the dialog is made from it
  if (need.reason === "reconcile") {
    return (
      <>
        <p>
          <span class="dim">Reason:</span>{" "}
          {typeof found === "string" ? <Foreign text={found} most={500} /> : <Value value={found} />}
        </p>
        <Traceback error={need.error} />
      </>
    );
  }
  if (DEATHS.has(need.reason) && Array.isArray(found)) return <Causes causes={found} />;
  if (need.reason === "drift" && typeof found === "object") return <Drift report={found as Record<string, unknown>} />;
  if (need.reason === "stalled" && typeof found === "object") return <Stall report={found as StallReport} />;
  return <Named name="Evidence" value={found} open={false} />;
}

/** The traceback of the last failure; each attempt by what ended it, and all that is known, a click away. */
function Causes({ causes }: { causes: readonly unknown[] }): JSX.Element {
  return (
    <>
      <Traceback error={lastError(causes)} />
      <details class="named">
        <summary>{plural(causes.length, "cause")}</summary>
        <ol class="causes">
          {causes.map((cause, nth) => (
            <li key={nth}>
              <Foreign text={told(cause)} most={300} />
            </li>
          ))}
        </ol>
        <Named name="Full record" value={causes} open={false} />
      </details>
    </>
  );
}

function told(cause: unknown): string {
  if (typeof cause !== "object" || cause === null) return compact(cause);
  const { why, at, holder, error } = cause as Record<string, unknown>;
  const said = errorLine(error);
  const words = [
    typeof at === "number" ? exact(at) : "",
    typeof why === "string" && !(said && why === "failed") ? why : "",
    said,
    typeof holder === "string" && holder ? `on ${shortWorker(holder)}` : "",
  ].filter(Boolean);
  return words.length > 0 ? words.join(", ") : compact(cause);
}

interface StallReport {
  tasks?: readonly { task?: unknown; at?: unknown; stack?: unknown }[];
}

/** Where the code of a stalled job stands: each task at its author's line, and how it came there a click away. */
function Stall({ report }: { report: StallReport }): JSX.Element {
  const tasks = Array.isArray(report.tasks) ? report.tasks : [];
  return (
    <div class="stall">
      <p class="dim">Where the code waits:</p>
      <ol class="causes">
        {tasks.map((task, nth) => (
          <li key={nth}>
            <Foreign text={String(task.task ?? "a task")} most={120} /> at{" "}
            <code>
              <Foreign text={String(task.at ?? "")} most={300} />
            </code>
          </li>
        ))}
      </ol>
      <Named name="Full report" value={report} open={false} />
    </div>
  );
}

/** What a parked job's report says, recorded beside attempted. */
function Drift({ report }: { report: Record<string, unknown> }): JSX.Element {
  const { why, recorded, attempted, ...rest } = report;
  return (
    <div class="drift">
      {typeof why === "string" && (
        <p>
          <Foreign text={why} most={600} />
        </p>
      )}
      <div class="beside">
        {recorded !== undefined && (
          <Named name="Recorded" value={Array.isArray(recorded) && recorded.length === 1 ? recorded[0] : recorded} />
        )}
        {attempted !== undefined && <Named name="Attempted" value={attempted} />}
      </div>
      {Object.keys(rest).length > 0 && <Named name="Full report" value={rest} open={recorded === undefined} />}
    </div>
  );
}
