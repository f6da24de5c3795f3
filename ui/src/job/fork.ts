// Another job that shares the past up to a step and goes its own way from there.

import { h } from "preact";
import { Raw, at, get, post } from "../core/api";
import { problemIn } from "../core/polling";
import { go, href } from "../core/router";
import type { Job, Submitted } from "../core/types";
import { type Field, askPerson } from "../parts/dialog";
import { say, sayProblem } from "../parts/toasts";
import { pretty } from "../text/exact";
import { type Preview, ForkPreview } from "./fork_preview";

/** Where a job is forked: at a step, which runs again, or at an event, the first that is not taken over; with a replaced
 * result of the step before it, if the person gives one. */
export type ForkPoint =
  | { step: string; name: string }
  | { seq: number; name: string; edit?: { step: string; what: string; result: unknown } };

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
  const edit = "edit" in point ? point.edit : undefined;
  const before = pretty(job.input).trim();
  const given = await askPerson({
    title: edit ? `Fork with another ${edit.what} of ${point.name}` : `Fork from ${point.name}`,
    body: h(ForkPreview, { preview, from: point.name, edited: edit?.what ?? "" }),
    confirm: "Fork",
    ...(edit ? { why: "optional", whyLike: "what if it had asked for another order", signed: true } : {}),
    fields: [edit ? resultField(edit) : inputField(before)],
  });
  if (given === null) return;
  const from = JSON.stringify("step" in point ? point.step : point.seq);
  const typed = given.input?.trim() ?? "";
  const changed = typed !== "" && typed !== before;
  const body = [`"at":${from}`, ...(changed ? [`"input":${typed}`] : [])];
  if (edit) {
    const { why, by } = given;
    body.push(`"edits":{${JSON.stringify(edit.step)}:${given.result ?? "null"}}`);
    body.push(JSON.stringify({ why: why ?? "", by: by ?? "" }).slice(1, -1));
  }
  try {
    const made = await post<Submitted>(
      at`/api/jobs/${job.job_id}/fork`,
      new Raw(`{${body.join(",")}}`),
    );
    say("Fork created.");
    go(href(["jobs", made.job_id]));
  } catch (error) {
    sayProblem(problemIn(error));
  }
}

const inputField = (value: string): Field => ({
  name: "input",
  label: "Input",
  kind: "json",
  value,
  hint: "With another input, reads whose arguments change run again; a side effect whose arguments change parks the fork.",
});

function resultField({ what, result }: { what: string; result: unknown }): Field {
  return {
    name: "result",
    label: `New ${what}`,
    kind: "json",
    required: true,
    value: pretty(result).trim(),
    hint:
      what === "answer"
        ? "The code continues with exactly this. It includes the arguments of the tool calls."
        : "The code continues with exactly this.",
  };
}
