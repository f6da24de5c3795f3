"""Raising a budget: which budget a command applies to, and whether it would change anything."""

from __future__ import annotations

import shlex

from holdfast.api.command_checks import over
from holdfast.api.job_needs import find_budget_stop
from holdfast.api.job_snapshot import Loaded
from holdfast.errors import InvalidMove, InvalidPayload, NotFound
from holdfast.model import budget as money
from holdfast.model.budget import OPTIONS, Budget
from holdfast.model.ids import check_name
from holdfast.model.mailbox import MailDraft
from holdfast.model.states import TERMINAL, MailKind


def letter(
    job: Loaded, budget_id: str | None, limits: Budget, *, why: str, by: str, operation_id: str
) -> MailDraft:
    """The mail with the command. A repeated command applies to the same budget as the first time."""
    for earlier in job.letters:
        if earlier.operation_id == operation_id and isinstance(earlier.body, dict) and budget_id is None:
            budget_id = earlier.body.get("budget_id")
    return MailDraft(
        job_id=job.head.job_id,
        kind=MailKind.BUDGET,
        operation_id=operation_id,
        body={"budget_id": budget_id or _meant(job), "limits": money.to_json(limits), "why": why},
        sender=check_name(by, "by"),
    )


def _meant(job: Loaded) -> str:
    """The budget that stopped the job; else its own, or the nearest of its ancestors'."""
    stopped = find_budget_stop(job)
    if stopped is not None:
        return stopped.budget_id
    if not job.budgets:
        msg = f"no budget applies to job {job.head.job_id}"
        raise InvalidMove(msg, hint="Declare one: @hf.agent(budget=hf.Budget(usd=2)).")
    return job.budgets[-1]


def check(job: Loaded, mail: MailDraft) -> None:
    """Checks that the job is open, and that a limit would rise."""
    budget_id, limits = mail.body["budget_id"], mail.body["limits"]
    if job.head.status in TERMINAL:
        raise over(job.head, "raise a budget of")
    account = next((candidate for candidate in job.accounts if candidate.budget_id == budget_id), None)
    if account is None:
        msg = f"budget {budget_id!r} does not apply to job {job.head.job_id}"
        known = ", ".join(map(shlex.quote, job.budgets))
        raise NotFound(msg, hint=f"These do: {known}." if known else "No budget does.")
    allowed = money.to_json(account.limits)
    known = ", ".join(f"{OPTIONS[name]} ({money.show(name, most)})" for name, most in allowed.items())
    if not limits:
        msg = "no limit was given"
        raise InvalidPayload(msg, hint=f"Give the new total of a limit: {known}.")
    for name, most in limits.items():
        if name not in allowed:
            msg = f"budget {budget_id} has no limit on {name}"
            raise InvalidPayload(msg, hint=f"It has: {known}.")
        if most <= allowed[name]:
            msg = f"budget {budget_id} allows {money.show(name, allowed[name])} {money.WORDS[name]} already"
            raise InvalidPayload(msg, hint="A limit is a total and is never lowered: give a larger one.")


def waits_for(job: Loaded, mail: MailDraft) -> bool:
    """Whether another job waits for the same budget."""
    stopped = find_budget_stop(job)
    return (
        stopped is not None
        and stopped.budget_id == mail.body["budget_id"]
        and job.head.job_id != mail.job_id
        and job.head.status not in TERMINAL
    )
