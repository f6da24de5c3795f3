"""Mailbox: messages from others to a job, recorded as events of its journal.

Only the holder writes a journal; other processes send mail. Here each kind of message becomes its event, or none, if it
no longer applies: a second decision on a call that is settled, an approval that was requested with other arguments or
has expired, a message that cannot be read. An event names the message it came from, so none counts twice.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Annotated, Any

import msgspec

from holdfast.engine import budgets
from holdfast.engine.approvals import APPROVED, DENIED
from holdfast.engine.journal_writer import PendingEvent, Stamp
from holdfast.engine.suspension import signal_topic
from holdfast.model import budget as money
from holdfast.model.append import NOTHING, Extras
from holdfast.model.budget import Limit, LimitRaise
from holdfast.model.events import (
    ApprovalDecided,
    BudgetRaised,
    CancelRequested,
    ChildFinished,
    Event,
    JobRequeued,
    SignalReceived,
    ToolReconciled,
)
from holdfast.model.ledger import CallRow, call_id, idempotency_key
from holdfast.model.limits import INTEGER_MAX
from holdfast.model.mailbox import Mail
from holdfast.model.replay_history import History, Recorded
from holdfast.model.side_effects import DECIDED, CallStatus
from holdfast.model.states import MailKind


class MailboxCommand(msgspec.Struct, frozen=True):
    """A person's decision on an uncertain call."""

    step_key: str
    decision: str
    why: str
    generation: int = 0
    result: Any = None


class ApprovalAnswer(msgspec.Struct, frozen=True):
    """A person's decision on a request for approval."""

    approval_id: str
    decision: str
    why: str = ""


class ChildNotice(msgspec.Struct, frozen=True):
    """Message of a child to its parent when the child ends."""

    step_key: str
    child_job_id: str
    status: str
    result: Any = None
    error: Any = None


class RaiseCommand(msgspec.Struct, frozen=True):
    """A person's raise of a budget: limits that it has at least from now on, in exact units."""

    budget_id: str
    limits: dict[Limit, Annotated[int, msgspec.Meta(ge=0, le=INTEGER_MAX)]]
    why: str = ""


class ResumeCommand(msgspec.Struct, frozen=True):
    """A person's decision on a job that is held: continue, and perhaps accept the report of a parked job."""

    choice: str = "continue"
    why: str = ""


class MailboxReader:
    """Reads the mail of one claimed job. `reserve` gives each event its place among the job's events."""

    def __init__(
        self, namespace: str, job_id: str, fence: int, history: History, reserve: Callable[[], Stamp]
    ) -> None:
        self._namespace = namespace
        self._job_id = job_id
        self._fence = fence
        self._history = history
        self._reserve = reserve
        self.cancelled = False
        self.requeued: JobRequeued | None = None
        self._reading: dict[MailKind, Callable[[Mail], PendingEvent | None]] = {
            MailKind.CANCEL: self._cancel,
            MailKind.SIGNAL: self._signal,
            MailKind.RECONCILE: self._reconcile,
            MailKind.APPROVAL: self._approval,
            MailKind.CHILD: self._child,
            MailKind.BUDGET: self._budget,
            MailKind.RESUME: self._resume,
        }

    def facts(self, letters: Iterable[Mail]) -> list[PendingEvent]:
        """The events of these messages, in their order; the history already includes them."""
        entries = []
        for letter in letters:
            read = self._reading.get(letter.kind)
            try:
                entry = None if read is None else read(letter)
            except msgspec.ValidationError:
                continue  # the sender violated the format; the job ignores the message
            if entry is not None:
                self._history.take(entry.order, entry.event, entry.at)
                self._history.heard = max(self._history.heard, letter.mail_seq)
                entries.append(entry)
        return entries

    def _entry(self, event: Event, row: CallRow | None = None, extras: Extras = NOTHING) -> PendingEvent:
        stamp = self._reserve()
        return PendingEvent(stamp.seq, event, row, extras, at=stamp.at)

    def _cancel(self, letter: Mail) -> PendingEvent:
        self.cancelled = True
        event = CancelRequested(by=letter.sender, why=letter.name, mail_seq=letter.mail_seq)
        return self._entry(event)

    def _signal(self, letter: Mail) -> PendingEvent:
        return self._entry(SignalReceived(letter.name, letter.mail_seq, letter.body))

    def _reconcile(self, letter: Mail) -> PendingEvent | None:
        command = msgspec.convert(letter.body, MailboxCommand)
        call = self._history.uncertain(command.step_key, command.generation)
        if call is None or command.decision not in DECIDED:
            return None
        event = ToolReconciled(
            command.step_key,
            command.decision,
            by=letter.sender,
            why=command.why,
            generation=command.generation,
            result=command.result,
            mail_seq=letter.mail_seq,
        )
        return self._entry(event, self._row(call, DECIDED[command.decision]))

    def _approval(self, letter: Mail) -> PendingEvent | None:
        answer = msgspec.convert(letter.body, ApprovalAnswer)
        approval = self._history.approvals.get(answer.approval_id)
        if approval is None or approval.decision is not None or answer.decision not in {APPROVED, DENIED}:
            return None
        if letter.sent_at >= approval.expires_at:
            return None
        event = ApprovalDecided(
            answer.approval_id, answer.decision, letter.sender, answer.why, letter.mail_seq
        )
        return self._entry(event)

    def _child(self, letter: Mail) -> PendingEvent | None:
        news = msgspec.convert(letter.body, ChildNotice)
        if self._history.children.get(news.child_job_id) != news.step_key:
            return None
        event = ChildFinished(
            news.step_key,
            news.child_job_id,
            news.status,
            result=news.result,
            error=news.error,
            mail_seq=letter.mail_seq,
        )
        return self._entry(event)

    def _budget(self, letter: Mail) -> PendingEvent | None:
        """Raises the account in the append that records the raise. A job accepts raises of its own budgets only."""
        grown = msgspec.convert(letter.body, RaiseCommand)
        if grown.budget_id not in self._history.budgets:
            return None
        event = BudgetRaised(grown.budget_id, grown.limits, letter.sender, grown.why, letter.mail_seq)
        raises = (LimitRaise(grown.budget_id, money.read(dict(grown.limits.items()))),)
        return self._entry(event, extras=Extras(raises=raises))

    def _resume(self, letter: Mail) -> None:
        """Restarts a held job. Not an event in between: the claim ends with it, and the next claim starts over."""
        choice = msgspec.convert(letter.body or {}, ResumeCommand)
        self.requeued = JobRequeued(
            why=choice.why,
            by=letter.sender,
            accepted=choice.choice == "accept",
            mail_seq=letter.mail_seq,
        )

    def _row(self, call: Recorded, status: CallStatus) -> CallRow:
        """The ledger row of a call after the decision."""
        return CallRow(
            tool_call_id=call_id(self._job_id, call.step_key, call.generation),
            job_id=self._job_id,
            step_key=call.step_key,
            generation=call.generation,
            tool_name=call.name,
            raw_tool_name=call.name,
            side_effect_class=call.effect,
            status=status,
            idempotency_key=idempotency_key(self._namespace, self._job_id, call.step_key, call.generation),
            args_digest=call.args_digest,
            attempt=call.attempt,
            fence=self._fence,
            start_by=call.start_by,
            longest_call_us=call.longest_call_us,
        )


def find_topic(entry: PendingEvent) -> str | None:
    """The topic of the waits that an event may end."""
    match entry.event:
        case SignalReceived(name=name):
            return signal_topic(name)
        case ToolReconciled(step_key=step_key) | ChildFinished(step_key=step_key):
            return step_key
        case ApprovalDecided(approval_id=approval_id):
            return approval_id
        case BudgetRaised(budget_id=budget_id):
            return budgets.budget_topic(budget_id)
        case _:
            return None
