"""Person: answers what a job asks, and says truthfully from the receivers' logs what became of an uncertain call."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from holdfast.model.events import ApprovalRequested, Event, QuestionAsked, ToolUncertain
from holdfast.model.hash_chain import unseal
from holdfast.model.jobs import JobHead
from holdfast.model.mailbox import MailDraft
from holdfast.model.side_effects import CallStatus
from holdfast.model.states import MailKind
from holdfast.store.contract import Store
from tests.kill.programs.receivers import Receivers


class Person:
    """Reads every journal as it grows, and says everything once."""

    def __init__(self, store: Store, receivers: Receivers) -> None:
        self._store = store
        self.receivers = receivers
        self._seen: dict[str, int] = {}
        self._uncertain: set[str] = set()
        self._sent: set[tuple[str, str]] = set()

    @property
    def memory(self) -> tuple[Mapping[str, int], frozenset[str], frozenset[tuple[str, str]]]:
        """What the person knows: how far each journal was read, jobs with an uncertain call, what was said."""
        return dict(self._seen), frozenset(self._uncertain), frozenset(self._sent)

    @memory.setter
    def memory(self, memory: tuple[Mapping[str, int], frozenset[str], frozenset[tuple[str, str]]]) -> None:
        self._seen, self._uncertain, self._sent = dict(memory[0]), set(memory[1]), set(memory[2])

    async def act(self, heads: Sequence[JobHead]) -> bool:
        """Answer what is open; whether there was anything to say."""
        before = len(self._sent)
        for head in heads:
            seen = self._seen.get(head.job_id, 0)
            if head.head_seq > seen:
                self._seen[head.job_id] = head.head_seq
                await self._read(head.job_id, seen)
            if head.job_id in self._uncertain:
                await self._reconcile(head.job_id)
        return len(self._sent) > before

    async def _read(self, job_id: str, seen: int) -> None:
        for sealed in await self._store.journal.read(job_id, after=seen):
            if sealed.type == ToolUncertain.type:
                self._uncertain.add(job_id)
            elif sealed.type in {ApprovalRequested.type, QuestionAsked.type}:
                await self._answer(job_id, unseal(sealed))

    async def _reconcile(self, job_id: str) -> None:
        """Say of each uncertain call what the receiver's log says, once its request has come to its end."""
        unknown = False
        for row in await self._store.ledger.list(job_id, status=CallStatus.UNCERTAIN):
            requests = [one for one in self.receivers.requests if one.key == row.idempotency_key]
            if not all(one.ended for one in requests):
                unknown = True
                continue
            arrived = [one for one in requests if one.arrived]
            body = {
                "step_key": row.step_key,
                "generation": row.generation,
                "decision": "happened" if arrived else "not_happened",
                "why": "from the receiver's log",
                "result": arrived[-1].result if arrived else None,
            }
            await self._send(job_id, MailKind.RECONCILE, row.tool_call_id, body=body)
        if not unknown:
            self._uncertain.discard(job_id)

    async def _answer(self, job_id: str, fact: Event) -> None:
        if isinstance(fact, ApprovalRequested):
            body: Any = {"approval_id": fact.approval_id, "decision": "approved", "why": ""}
            await self._send(job_id, MailKind.APPROVAL, fact.approval_id, body=body)
        elif isinstance(fact, QuestionAsked) and not fact.question.startswith("never"):
            await self._send(job_id, MailKind.SIGNAL, fact.question_id, name=fact.question_id, body=True)

    async def signal(self, job_id: str, name: str) -> None:
        """Send the signal of this name, with its name as its body."""
        await self._send(job_id, MailKind.SIGNAL, f"signal {name}", name=name, body=name)

    async def _send(
        self, job_id: str, kind: MailKind, operation: str, *, name: str = "", body: Any = None
    ) -> None:
        if (job_id, operation) in self._sent:
            return
        self._sent.add((job_id, operation))
        draft = MailDraft(
            job_id=job_id, kind=kind, operation_id=operation, name=name, body=body, sender="person"
        )
        await self._store.post.send(draft)
