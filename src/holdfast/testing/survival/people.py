"""Simulated people: answer the agent's questions, and decide truthfully on interrupted calls."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from holdfast.model.events import ApprovalDecided, ApprovalRequested, QuestionAsked
from holdfast.model.hash_chain import unseal
from holdfast.model.jobs import JobHead
from holdfast.model.mailbox import MailDraft
from holdfast.model.side_effects import CallStatus
from holdfast.model.states import MailKind, WaitReason
from holdfast.store.contract import Store
from holdfast.testing.survival.facts import MadeCall, RunSettings


class SimulatedOperator:
    """`calls` are the real calls, so that decisions are truthful; `remarks` collects the decisions for the report."""

    def __init__(
        self, store: Store, setting: RunSettings, calls: Sequence[MadeCall], remarks: list[str]
    ) -> None:
        self._store = store
        self._signals = setting.signals
        self._approve = setting.approve
        self._answers = dict(setting.answers)
        self._calls = calls
        self._said = remarks
        self._told: set[str] = set()

    async def act(self, heads: Sequence[JobHead]) -> bool:
        """Send the pending answers and decisions; returns whether any was new."""
        before = len(self._told)
        for head in heads:
            match head.wait_reason:
                case WaitReason.RECONCILE:
                    await self._reconcile(head.job_id)
                case WaitReason.APPROVAL:
                    await self._decide(head.job_id)
                case WaitReason.SIGNAL:
                    await self._signal(head.job_id)
                case _:
                    pass
        return len(self._told) > before

    async def _reconcile(self, job_id: str) -> None:
        for row in await self._store.ledger.list(job_id, status=CallStatus.UNCERTAIN):
            made = [call for call in self._calls if call.key == row.idempotency_key]
            if not all(call.ended for call in made):
                continue  # its outcome is not known yet
            decision, result = _find_true_outcome(made)
            body = {
                "step_key": row.step_key,
                "generation": row.generation,
                "decision": decision,
                "why": "the real calls were counted",
                "result": result,
            }
            if await self._send_once(job_id, MailKind.RECONCILE, row.tool_call_id, body=body):
                phrases = {
                    "happened": "had happened",
                    "not_happened": "had not happened",
                    "fail": "had failed",
                }
                self._said.append(f"{row.tool_name} was uncertain, and a person said: it {phrases[decision]}")

    async def _decide(self, job_id: str) -> None:
        events = [unseal(sealed) for sealed in await self._store.journal.read(job_id)]
        decided = {event.approval_id for event in events if isinstance(event, ApprovalDecided)}
        for event in events:
            if isinstance(event, ApprovalRequested) and event.approval_id not in decided:
                decision = "approved" if self._approve else "denied"
                body: Any = {"approval_id": event.approval_id, "decision": decision, "why": ""}
                await self._send_once(job_id, MailKind.APPROVAL, event.approval_id, body=body)
            if isinstance(event, QuestionAsked) and event.question in self._answers:
                body = self._answers[event.question]
                name = event.question_id
                await self._send_once(job_id, MailKind.SIGNAL, name, name=name, body=body)

    async def _signal(self, job_id: str) -> None:
        for number, (name, body) in enumerate(self._signals, 1):
            await self._send_once(job_id, MailKind.SIGNAL, f"signal-{number}", name=name, body=body)

    async def _send_once(
        self, job_id: str, kind: MailKind, operation: str, *, name: str = "", body: Any = None
    ) -> bool:
        """Send a message once; returns whether it was new."""
        message_id = f"{job_id} {operation}"
        if message_id in self._told:
            return False
        self._told.add(message_id)
        draft = MailDraft(
            job_id=job_id, kind=kind, operation_id=operation, name=name, body=body, sender="holdfast.testing"
        )
        await self._store.post.send(draft)
        return True


def _find_true_outcome(made: Sequence[MadeCall]) -> tuple[str, Any]:
    """The real outcome of a call, and its result. A call that raised, or was abandoned, has failed."""
    done = [call for call in made if call.returned]
    if done:
        return "happened", done[-1].result
    return ("fail", None) if made else ("not_happened", None)
