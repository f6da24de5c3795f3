// Another job that shares the past up to a step and goes its own way from there.

import { h } from "preact";
import { Raw, at, get, post } from "../core/api";
import { problemIn } from "../core/looking";
import { go, href } from "../core/router";
import type { Job, Submitted } from "../core/shapes";
import { askPerson } from "../parts/dialog";
import { say, sayProblem } from "../parts/toasts";
import { pretty } from "../text/exact";
import { type Preview, ForkPreview } from "./fork_preview";

/** Where it forks: at a step, which is done anew, or at an event, the first that is not taken over. */
export type ForkPoint = { step: string; name: string } | { seq: number; name: string };

/** Asks how, shows what would be reused, and goes to the fork. */
export async function forkFrom(job: Job, point: ForkPoint): Promise<void> {
  const where = "step" in point ? { step: point.step } : { seq: point.seq };
  let preview: Preview;
  try {
    preview = await get<Preview>(`${at`/api/jobs/${job.job_id}/fork`}${href([], where).slice(1)}`);
  } catch (error) {
    return sayProblem(problemIn(error));
  }
  if (preview.refused) return say(preview.refused, "bad", preview.hint ?? "");
  const before = pretty(job.input).trim();
  const given = await askPerson({
    title: `Fork from ${point.name}`,
    body: h(ForkPreview, { preview, from: point.name }),
    confirm: "Fork",
    fields: [
      {
        name: "input",
        label: "Input",
        kind: "json",
        value: before,
        hint: "With another input, reads with other arguments are made again, and an effect with other arguments parks the fork.",
      },
    ],
  });
  if (given === null) return;
  const from = JSON.stringify("step" in point ? point.step : point.seq);
  const typed = given.input?.trim() ?? "";
  const changed = typed !== "" && typed !== before;
  try {
    const made = await post<Submitted>(
      at`/api/jobs/${job.job_id}/fork`,
      new Raw(changed ? `{"at":${from},"input":${typed}}` : `{"at":${from}}`),
    );
    say("The fork is accepted.");
    go(href(["jobs", made.job_id]));
  } catch (error) {
    sayProblem(problemIn(error));
  }
}
