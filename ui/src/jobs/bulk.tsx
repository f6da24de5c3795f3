// A command to many jobs. The dialog says how many; each job's journal keeps the reason.

import type { JSX } from "preact";
import { useState } from "preact/hooks";
import { get, post } from "../core/api";
import { pollEverywhere, problemIn } from "../core/polling";
import type { JobRecord, Page } from "../core/types";
import { type Given, askPerson } from "../parts/dialog";
import { say } from "../parts/toasts";
import { isOver, plural } from "../text/words";
import { type Filter, asked } from "./filter";

const AT_ONCE = 500;
const MOST = 10_000;

interface BulkProps {
  filter: Filter;
  shown: readonly JobRecord[];
  chosen: ReadonlyMap<string, JobRecord>;
  setChosen(chosen: ReadonlyMap<string, JobRecord>): void;
  more: boolean;
}

interface BulkSaid {
  items: readonly { job_id: string; accepted: boolean; detail: string }[];
  accepted: number;
}

const isDead = (job: JobRecord): boolean => job.wait_reason === "dead_letter";

export function Bulk({ filter, shown, chosen, setChosen, more }: BulkProps): JSX.Element {
  const [busy, setBusy] = useState("");
  const all = [...chosen.values()];
  const open = all.filter((job) => !isOver(job.status));
  const dead = all.filter(isDead);
  const allShown = shown.every((job) => chosen.has(job.job_id));

  const gather = async (): Promise<void> => {
    const found = new Map<string, JobRecord>();
    let cursor: string | null = null;
    try {
      do {
        setBusy(`${found.size.toLocaleString()} found …`);
        const page: Page<JobRecord> = await get(`/api/jobs${asked(filter, { limit: 1000, cursor })}`);
        for (const job of page.items) found.set(job.job_id, job);
        cursor = page.next;
      } while (cursor !== null && found.size < MOST);
      setChosen(found);
      if (cursor !== null) say(`These are the newest ${found.size.toLocaleString()}; there are more.`, "warn");
    } catch (error) {
      say(problemIn(error).detail, "bad", problemIn(error).hint);
    } finally {
      setBusy("");
    }
  };

  const tell = async (jobs: readonly JobRecord[], word: string, path: string, given: Given): Promise<void> => {
    let done = 0;
    const failed: string[] = [];
    try {
      for (let from = 0; from < jobs.length; from += AT_ONCE) {
        setBusy(`${from} of ${jobs.length} …`);
        const ids = jobs.slice(from, from + AT_ONCE).map((job) => job.job_id);
        const said = await post<BulkSaid>(path, { ids, why: given.why ?? "", by: given.by ?? "" });
        done += said.accepted;
        failed.push(...said.items.filter((one) => !one.accepted).map((one) => `${one.job_id}: ${one.detail}`));
      }
    } catch (error) {
      const problem = problemIn(error);
      failed.push(`${problem.detail}. ${problem.hint}`);
    }
    setBusy("");
    if (failed.length === 0) say(`${word}: ${plural(done, "job")}.`);
    else say(`${word}: ${plural(done, "job")} of ${jobs.length}.`, "bad", failed[0]);
    setChosen(new Map());
    pollEverywhere();
  };

  const cancel = async (): Promise<void> => {
    const given = await askPerson({
      title: `Cancel ${plural(open.length, "job")}?`,
      body: `They make no further calls. Calls that they have already made are not undone.${all.length > open.length ? ` ${plural(all.length - open.length, "selected job has", "selected jobs have")} ended and are not affected.` : ""}`,
      confirm: `Cancel ${plural(open.length, "job")}`,
      tone: "danger",
      why: "required",
      signed: true,
    });
    if (given) await tell(open, "Cancelled", "/api/bulk/cancel", given);
  };
  const requeue = async (): Promise<void> => {
    const given = await askPerson({
      title: `Requeue ${plural(dead.length, "dead letter")}?`,
      body: "Same jobs, same journals, same idempotency keys: recorded calls are not made again. Attempts count from zero.",
      confirm: `Requeue ${plural(dead.length, "dead letter")}`,
      why: "required",
      signed: true,
    });
    if (given) await tell(dead, "Requeued", "/api/bulk/requeue", given);
  };

  return (
    <div class="bulk row" role="toolbar" aria-label="Commands to many jobs">
      <label class="row">
        <input
          type="checkbox"
          checked={allShown && shown.length > 0}
          onChange={(event) =>
            setChosen(
              event.currentTarget.checked
                ? new Map([...chosen, ...shown.map((job) => [job.job_id, job] as const)])
                : new Map(),
            )
          }
        />
        this page
      </label>
      {(more || all.length > shown.length) && (
        <button type="button" class="quiet" disabled={busy !== ""} onClick={() => void gather()}>
          select all that match
        </button>
      )}
      <span class="dim">{busy || (all.length > 0 ? `${plural(all.length, "job")} selected` : "")}</span>
      {all.length > 0 && (
        <span class="row end grow">
          <button
            type="button"
            class="danger"
            disabled={busy !== "" || open.length === 0}
            onClick={() => void cancel()}
          >
            Cancel {open.length}
          </button>
          <button
            type="button"
            disabled={busy !== "" || dead.length === 0}
            onClick={() => void requeue()}
            title="Dead letters among the selected jobs"
          >
            Requeue {dead.length}
          </button>
        </span>
      )}
    </div>
  );
}
