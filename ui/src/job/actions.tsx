// Commands to the job, and exports of its journal.

import type { JSX } from "preact";
import { Raw, at, download, post } from "../core/api";
import { pollEverywhere, problemIn } from "../core/polling";
import { href } from "../core/router";
import type { Accepted, Job } from "../core/types";
import { choose, stop } from "../home/decisions";
import { askPerson } from "../parts/dialog";
import { say, sayProblem } from "../parts/toasts";
import { isOver } from "../text/words";

export function Actions({ job }: { job: Job }): JSX.Element {
  const over = isOver(job.status);
  const keep = async (name: string, accept: string): Promise<void> => {
    try {
      await download(at`/api/jobs/${job.job_id}/export`, name, accept);
    } catch (error) {
      sayProblem(problemIn(error));
    }
  };
  const file = job.job_id.replace(/[^A-Za-z0-9_-]/g, "_").slice(0, 60);
  return (
    <div class="row actions" role="toolbar" aria-label="Commands">
      {!over && (
        <button type="button" class="danger" onClick={() => void choose(stop(job.job_id))}>
          Cancel job
        </button>
      )}
      {!over && (
        <button type="button" onClick={() => void signal(job)}>
          Signal
        </button>
      )}
      <button
        type="button"
        onClick={() => void keep(`${file}.jsonl`, "application/x-ndjson")}
        title="The journal and its blobs, as JSON lines"
      >
        Export
      </button>
      <button
        type="button"
        onClick={() => void keep(`${file}.zip`, "application/zip")}
        title="A file that `holdfast verify` checks offline; signed if the server has a signing key"
      >
        Export (signed)
      </button>
      <a class="button" href={href(["jobs"], { parent_job_id: job.job_id })}>
        Children
      </a>
      <a class="button" href={href(["jobs"], { kind: job.kind })}>
        Jobs of this kind
      </a>
    </div>
  );
}

async function signal(job: Job): Promise<void> {
  const given = await askPerson({
    title: "Send a signal",
    confirm: "Send",
    fields: [
      { name: "name", label: "Name", required: true, placeholder: "paid:42" },
      { name: "data", label: "Payload", kind: "json", placeholder: '{"cents": 4200}' },
    ],
    signed: true,
  });
  if (given === null) return;
  const said = JSON.stringify({ name: given.name?.trim(), by: given.by ?? "" });
  try {
    const data = given.data?.trim();
    const accepted = await post<Accepted>(
      at`/api/jobs/${job.job_id}/signal`,
      new Raw(data ? `${said.slice(0, -1)},"body":${data}}` : said),
    );
    say(accepted.at_once ? "Delivered." : "Sent: the signal is in the job's mailbox.");
    pollEverywhere();
  } catch (error) {
    sayProblem(problemIn(error));
  }
}
