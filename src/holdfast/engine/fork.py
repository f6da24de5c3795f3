"""Fork: a new job that shares the history of another one up to a step, and continues on its own."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from holdfast.errors import Broken, InvalidMove, NotFound
from holdfast.model import budget as money
from holdfast.model import canonical
from holdfast.model.append import Extras, Move
from holdfast.model.events import JobCreated
from holdfast.model.fork import ForkedEvent, SharedHistory, fork_point, take_history
from holdfast.model.hash_chain import find_break, unseal
from holdfast.model.ids import IdSource, check_name
from holdfast.model.jobs import JobDraft, SubmittedJob
from holdfast.model.states import Status
from holdfast.store.contract import Store
from holdfast.store.ports.journal import Ruling

SAME: Final = object()
"""For `new_input`: the original's input."""


async def fork(
    store: Store,
    job_id: str,
    *,
    at: str | int,
    ids: IdSource,
    new_input: Any = SAME,
    fork_id: str | None = None,
    request_key: str | None = None,
    queue: str | None = None,
    priority: int | None = None,
    edits: Mapping[str, Any] | None = None,
    by: str = "",
    why: str = "",
) -> SubmittedJob:
    """Creates a job that has everything `job_id` had recorded before `at`, and does the rest itself.

    `at` is a step key (that step is done anew) or the number of the first event that is not copied. The original may
    be in any state and does not change. With another input (`new_input`) the rules of drift apply: reads with other
    arguments are made again, effects with other arguments park the fork.

    With `edits`, reads and model answers before `at` are copied with other results: results by step key. The fork's
    journal begins with who changed them (`by`) and why.

    With a `request_key` (or its own `fork_id`) the call can be repeated any number of times and makes one fork.

    Raises:
        NotFound: No such job, step or event.
        InvalidMove: An effect was in progress or uncertain at that point, or a child was; or it is a turn of a session;
            or the result of an effect was to be changed.
        InvalidPayload: The journal was erased.
    """
    events = await _read_journal(store, job_id)
    created = events[0].event
    assert isinstance(created, JobCreated), "a journal begins with it"
    if created.session_id is not None:
        msg = f"job {job_id} is a turn of session {created.session_id}, and cannot be forked"
        raise InvalidMove(msg, hint="Start a new session from the state you want.")
    namespace = (await store.jobs.get(job_id)).namespace
    before = fork_point(events, at)
    new_id = ids.new("job") if fork_id is None else fork_id
    draft = JobDraft(
        kind=created.kind,
        input=created.input if new_input is SAME else new_input,
        namespace=namespace,
        queue=created.queue if queue is None else queue,
        priority=created.priority if priority is None else priority,
        request_key=request_key,
        job_id=new_id,
        code_version=created.code_version,
        python_version=created.python_version,
        budget=None if created.budget is None else money.read(created.budget),
        forked_from=job_id,
        forked_at_seq=before,
        edited=None if not edits else _describe_edits(edits, by, why),
    )
    history = take_history(events, before, job_id=new_id, namespace=namespace, edits=edits)
    return await store.journal.begin(draft, _make_rulings(history))


def _make_rulings(history: SharedHistory) -> list[Ruling]:
    """One ruling per hold of the original, each of which releases the job; the ledger comes with the last."""
    given_back = Move(status=Status.PENDING)
    rulings = [
        Ruling(tuple(event for event, _ in hold), given_back, times=tuple(at for _, at in hold))
        for hold in history.holds
    ]
    rulings[-1] = msgspec.structs.replace(rulings[-1], extras=Extras(calls=history.rows))
    return rulings


async def _read_journal(store: Store, job_id: str) -> list[ForkedEvent]:
    """The whole journal of the original."""
    sealed = await store.journal.read(job_id)
    if not sealed:
        msg = f"there is no job {job_id!r}"
        raise NotFound(msg)
    if find_break(job_id, sealed) is not None:
        msg = f"the journal of job {job_id} is damaged"
        raise Broken(msg)
    return [ForkedEvent(sealed_event.seq, sealed_event.at, unseal(sealed_event)) for sealed_event in sealed]


def _describe_edits(edits: Mapping[str, Any], by: str, why: str) -> dict[str, Any]:
    """The record of the edits in the journal, by digests: the results themselves are in the events of their steps."""
    digests = {step_key: canonical.digest_of(result).hex() for step_key, result in sorted(edits.items())}
    return {"by": check_name(by, "by"), "why": why, "steps": digests}
