// What a person may say to each kind of need, what is asked for before it is said, and where it goes.

import { Raw, at, post } from "../core/api";
import { pollEverywhere, problemIn } from "../core/polling";
import type { Accepted, Need } from "../core/types";
import { type Field, type Given, type Question, askPerson } from "../parts/dialog";
import { say, sayProblem } from "../parts/toasts";
import { span } from "../text/times";
import { questionField, readAnswer } from "./questions";
import { raiseFields, readLimits } from "./budget_raise";

export interface Choice {
  name: string;
  hint?: string;
  tone?: "primary" | "danger";
  /** Why it cannot be said yet. */
  notBefore?: string;
  question: Question;
  path: string;
  body(given: Given): unknown;
  done: string;
  sent: string;
}

const SENT = "It is stored in the job's mailbox; the job continues as soon as a worker claims it.";

/** Asks what has to be asked, says it, and tells what came of it. */
export async function choose(choice: Choice): Promise<boolean> {
  const given = await askPerson(choice.question);
  if (given === null) return false;
  try {
    const accepted = await post<Accepted>(choice.path, choice.body(given));
    say((accepted.at_once ? choice.done : choice.sent) + (accepted.repeated ? " It had been received before." : ""));
    pollEverywhere();
    return true;
  } catch (error) {
    sayProblem(problemIn(error));
    return false;
  }
}

export function choicesFor(need: Need, now: number): Choice[] {
  if (need.question_id) return [answer(need)];
  switch (need.reason) {
    case "reconcile":
      return reconcile(need, now);
    case "approval":
      return approval(need);
    case "drift":
      return [resume(need, "continue"), resume(need, "accept"), stop(need.job_id)];
    case "stalled":
    case "restore_review":
      return [resume(need, "continue"), stop(need.job_id)];
    case "dead_letter":
      return [requeue(need.job_id), discard(need.job_id)];
    case "budget":
      return [raise(need), stop(need.job_id)];
    case "suspect":
      return [stop(need.job_id)];
    default:
      return [];
  }
}

const signedWhy = (given: Given): { why: string; by: string } => ({ why: given.why ?? "", by: given.by ?? "" });

function reconcile(need: Need, now: number): Choice[] {
  const path = at`/api/jobs/${need.job_id}/steps/${need.step_key ?? ""}/reconcile`;
  const tooEarly = need.allowed_at !== null && need.allowed_at > now;
  const word = (
    decision: string,
    name: string,
    body: string,
    more: Partial<Choice> = {},
    fields: readonly Field[] = [],
  ): Choice => ({
    name,
    hint: body,
    path,
    question: {
      title: `${name}: ${need.tool}`,
      body,
      confirm: name,
      fields,
      why: "required",
      whyLike: "the receiver's log has it",
      signed: true,
      tone: more.tone === "danger" ? "danger" : "plain",
    },
    body(given) {
      const said = { decision, ...signedWhy(given), generation: need.generation };
      return given.result?.trim() ? new Raw(`${JSON.stringify(said).slice(0, -1)},"result":${given.result}}`) : said;
    },
    done: "Recorded; the job continues.",
    sent: SENT,
    ...more,
  });
  const result: Field = {
    name: "result",
    label: "Result",
    kind: "json",
    hint: "What the call returned, as JSON. The code gets exactly this.",
    placeholder: '"receipt 81"',
  };
  const not: Partial<Choice> = tooEarly
    ? {
        notBefore: `“It did not happen” is allowed in ${span((need.allowed_at as number) - now)}: until then the call may still be in progress`,
      }
    : {};
  return [
    word(
      "happened",
      "It happened",
      "The call is not made again, and the code continues with the result that you enter.",
      { tone: "primary" },
      [result],
    ),
    word("not_happened", "It did not happen", "The call had no effect. It is made again under a new key.", not),
    word("skip", "Skip it", "Leave the question open and go on without a result."),
    word("fail", "Fail it", "The call counts as failed; the code gets an error with your reason.", { tone: "danger" }),
  ];
}

function approval(need: Need): Choice[] {
  const id = need.approval_id ?? need.job_id;
  const bound = "The decision applies to exactly these arguments, and once.";
  return [
    {
      name: "Approve",
      tone: "primary",
      path: at`/api/approvals/${id}/approve`,
      question: { title: `Approve ${need.tool}?`, body: bound, confirm: "Approve", why: "optional", signed: true },
      body: signedWhy,
      done: "Approved; the job continues.",
      sent: `Approved. ${SENT}`,
    },
    {
      name: "Deny",
      tone: "danger",
      path: at`/api/approvals/${id}/deny`,
      question: {
        title: `Deny ${need.tool}?`,
        body: `${bound} The code gets an error with your reason.`,
        confirm: "Deny",
        tone: "danger",
        why: "required",
        signed: true,
      },
      body: signedWhy,
      done: "Denied; the job continues without the call.",
      sent: `Denied. ${SENT}`,
    },
  ];
}

function answer(need: Need): Choice {
  const field = questionField(need.evidence);
  return {
    name: "Answer",
    tone: "primary",
    path: at`/api/jobs/${need.job_id}/answer`,
    question: { title: need.what, confirm: "Answer", fields: [field], signed: true },
    body: (given) => ({
      answer: readAnswer(field, given.answer ?? "", need.evidence),
      question_id: need.question_id,
      by: given.by ?? "",
    }),
    done: "Answered.",
    sent: `Answered. ${SENT}`,
  };
}

function resume(need: Need, choice: "continue" | "accept"): Choice {
  const accepting = choice === "accept";
  const body = accepting
    ? "Recorded calls that the code no longer makes are ignored. No recorded call is made again."
    : "The job is tried again from its last commit, with the code that the workers have now.";
  const name = accepting ? "Accept the change" : "Continue";
  return {
    name,
    hint: body,
    ...(accepting ? {} : { tone: "primary" as const }),
    path: at`/api/jobs/${need.job_id}/resume`,
    question: { title: `${name}?`, body, confirm: name, why: "required", signed: true },
    body: (given) => ({ choice, ...signedWhy(given) }),
    done: "Requeued; its attempts count from zero.",
    sent: "The job continues as soon as a worker claims it.",
  };
}

export function requeue(jobId: string): Choice {
  return {
    name: "Requeue",
    tone: "primary",
    path: at`/api/dead-letters/${jobId}/requeue`,
    question: {
      title: "Try it again?",
      body: "Same job, same journal, same idempotency keys: recorded calls are not made again. Attempts count from zero.",
      confirm: "Requeue",
      why: "required",
      whyLike: "the shop is up again",
      signed: true,
    },
    body: signedWhy,
    done: "Requeued; its attempts count from zero.",
    sent: SENT,
  };
}

function discard(jobId: string): Choice {
  return {
    name: "Discard",
    tone: "danger",
    path: at`/api/dead-letters/${jobId}/discard`,
    question: {
      title: "Discard it?",
      body: "The job is cancelled, with your name and reason. Its journal is kept.",
      confirm: "Discard",
      tone: "danger",
      why: "required",
      whyLike: "the order was withdrawn",
      signed: true,
    },
    body: signedWhy,
    done: "Discarded.",
    sent: SENT,
  };
}

export function stop(jobId: string): Choice {
  return {
    name: "Cancel the job",
    tone: "danger",
    path: at`/api/jobs/${jobId}/stop`,
    question: {
      title: "Cancel the job?",
      body: "The job makes no further calls. Calls that it has already made are not undone.",
      confirm: "Cancel the job",
      tone: "danger",
      why: "required",
      whyLike: "the order was withdrawn",
      signed: true,
    },
    body: signedWhy,
    done: "Cancelled.",
    sent: "Requested: its worker cancels the job before its next call.",
  };
}

function raise(need: Need): Choice {
  const fields = raiseFields(need.commands);
  return {
    name: "Raise the budget",
    tone: "primary",
    path: at`/api/jobs/${need.job_id}/raise`,
    question: { title: "Raise the budget", body: need.what, confirm: "Raise", fields, why: "required", signed: true },
    body: (given) => ({ limits: readLimits(given), ...signedWhy(given) }),
    done: "Raised; the job continues.",
    sent: `Raised. ${SENT}`,
  };
}
