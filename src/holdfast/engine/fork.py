"""Forking a job from a step: another job that shares the past and goes its own way from there."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from holdfast.errors import Broken, InvalidMove, NotFound
from holdfast.model import budget as money
from holdfast.model import canonical
from holdfast.model.append import Extras, Move
from holdfast.model.events import JobCreated
from holdfast.model.fork import ForkedEvent, Taken, fork_point, take_history
from holdfast.model.hash_chain import first_break, unseal
from holdfast.model.ids import IdSource, check_name
from holdfast.model.jobs import JobDraft, Submitted
from holdfast.model.states import Status
from holdfast.store.contract import Store
from holdfast.store.ports.journal import Ruling

SAME: Final = object()
"""For `given`: the original's input."""


async def fork(
    store: Store,
    job_id: str,
    *,
    at: str | int,
    ids: IdSource,
    given: Any = SAME,
    fork_id: str | None = None,
    request_key: str | None = None,
    queue: str | None = None,
    priority: int | None = None,
    edits: Mapping[str, Any] | None = None,
    by: str = "",
    why: str = "",
) -> Submitted:
    """A new job exists that has everything `job_id` had recorded before `at`, and will do the rest itself.

    `at` is a step key (that step is done anew) or the number of the first event that is not taken over. The original
    may be in any state and is not touched. With another input (`given`) the rules of drift apply: reads with other
    arguments are made again, effects with other arguments park the fork.

    With `edits`, reads and models before `at` are taken over as if they had said something else: results by step key.
    Its journal begins with who changed them (`by`) and why.

    With a `request_key` (or a `fork_id` of its own) it can be asked for any number of times and makes one fork.

    Raises:
        NotFound: No such job, step or event.
        InvalidMove: An effect was under way or uncertain at that point, or a child was; or it is a turn of a session;
            or what an effect said was to be changed.
        InvalidPayload: The journal was erased.
    """
    facts = await _facts(store, job_id)
    created = facts[0].event
    assert isinstance(created, JobCreated), "a journal begins with it"
    if created.session_id is not None:
        msg = f"job {job_id} is a turn of session {created.session_id}, and cannot be forked"
        raise InvalidMove(msg, hint="Start a new session from the state you want.")
    namespace = (await store.jobs.get(job_id)).namespace
    before = fork_point(facts, at)
    named = ids.new("job") if fork_id is None else fork_id
    draft = JobDraft(
        kind=created.kind,
        input=created.input if given is SAME else given,
        namespace=namespace,
        queue=created.queue if queue is None else queue,
        priority=created.priority if priority is None else priority,
        request_key=request_key,
        job_id=named,
        code_version=created.code_version,
        python_version=created.python_version,
        budget=None if created.budget is None else money.read(created.budget),
        forked_from=job_id,
        forked_at_seq=before,
        edited=None if not edits else _edited(edits, by, why),
    )
    taken = take_history(facts, before, job_id=named, namespace=namespace, edits=edits)
    return await store.journal.begin(draft, _rulings(taken))


def _rulings(taken: Taken) -> list[Ruling]:
    """Hold by hold, each of which gives it back; the ledger comes with the last."""
    given_back = Move(status=Status.PENDING)
    rulings = [
        Ruling(tuple(event for event, _ in hold), given_back, times=tuple(at for _, at in hold))
        for hold in taken.holds
    ]
    rulings[-1] = msgspec.structs.replace(rulings[-1], extras=Extras(calls=taken.rows))
    return rulings


async def _facts(store: Store, job_id: str) -> list[ForkedEvent]:
    """The journal of the original, whole."""
    sealed = await store.journal.read(job_id)
    if not sealed:
        msg = f"there is no job {job_id!r}"
        raise NotFound(msg)
    if first_break(job_id, sealed) is not None:
        msg = f"the journal of job {job_id} is damaged"
        raise Broken(msg)
    return [ForkedEvent(one.seq, one.at, unseal(one)) for one in sealed]


def _edited(edits: Mapping[str, Any], by: str, why: str) -> dict[str, Any]:
    """What the journal keeps of it: the results themselves are where results are."""
    digests = {step_key: canonical.digest_of(result).hex() for step_key, result in sorted(edits.items())}
    return {"by": check_name(by, "by"), "why": why, "steps": digests}
