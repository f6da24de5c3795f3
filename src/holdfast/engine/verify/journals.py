"""Invariants that need a journal read from its first event: the chain, the grammar, and what the rows beside it say.

The head and the ledger are the fold of the journal, kept up to date by the transaction that appends. Here the fold is
computed again. Two differences are not violations, because nobody but a holder writes into a journal: a waiting job
that mail, a due timer or the end of the turn in front of it has made pending; and a new job that joined a line.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from holdfast.engine.verify.report import Violation
from holdfast.errors import HoldfastError
from holdfast.model import fold
from holdfast.model.chain import SealedEvent, first_break, unseal
from holdfast.model.events import Event
from holdfast.model.jobs import JobHead
from holdfast.model.states import Status, WaitReason
from holdfast.store.executor import Transaction
from holdfast.store.tables.heads import head_of

PAGE = 500
WHOLE = 2**62


class Counted(msgspec.Struct):
    jobs: int = 0
    events: int = 0


async def by_journal(tx: Transaction, counted: Counted) -> list[Violation]:
    """What is wrong with any journal, job by job."""
    found: list[Violation] = []
    after = ""
    while heads := [head_of(row) for row in await tx.rows("all_heads", after=after, limit=PAGE)]:
        for head in heads:
            rows = await tx.rows("read_events", job_id=head.job_id, after=0, limit=WHOLE)
            events = [SealedEvent(*row) for row in rows]
            counted.jobs += 1
            counted.events += len(events)
            found.extend(judge(head, events))
            found.extend(await _ledger(tx, head, events))
        after = heads[-1].job_id
    return found


def judge(head: JobHead, events: list[SealedEvent]) -> Iterator[Violation]:
    """What is wrong with one journal and the head beside it."""
    broken = first_break(head.job_id, events)
    if broken is not None:
        yield Violation("I6", head.job_id, f"the hash chain breaks at event {broken}")
        return
    try:
        job = fold.fold(_facts(events))
    except (fold.Ungrammatical, HoldfastError, msgspec.ValidationError) as error:
        yield Violation("I7", head.job_id, str(error))
        return
    if not _agrees(head, job):
        yield Violation(
            "I8",
            head.job_id,
            f"the head says {head.status} ({head.wait_reason}), the journal {job.status} ({job.wait_reason})",
        )


def _facts(events: list[SealedEvent]) -> Iterator[tuple[int, int, Event]]:
    return ((event.seq, event.fence, unseal(event)) for event in events)


def _agrees(head: JobHead, job: fold.Job) -> bool:
    if (head.status, head.wait_reason) == (job.status, job.wait_reason):
        return True
    woken = job.status is Status.WAITING and head.status is Status.PENDING
    joined = job.status is Status.PENDING and head.wait_reason is WaitReason.JOINED
    return woken or joined


async def _ledger(tx: Transaction, head: JobHead, events: list[SealedEvent]) -> list[Violation]:
    """I8, I10, I14: the ledger is what the journal says about the calls it tells of."""
    try:
        told = fold.fold(_facts(events)).calls
    except (fold.Ungrammatical, HoldfastError, msgspec.ValidationError):
        return []
    rows = await tx.rows("list_calls", job_id=head.job_id, status=None)
    kept = {(row[2], row[3]): (row[7], row[8], row[9]) for row in rows}
    return [
        Violation(
            "I8", head.job_id, f"the ledger says {kept.get(place)} of call {place}, the journal {call.status}"
        )
        for place, call in told.items()
        if kept.get(place) != (call.status, call.key, call.args_digest)
    ]
