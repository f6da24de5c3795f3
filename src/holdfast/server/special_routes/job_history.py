"""Job history: a single step in full, and the preview of a fork."""

from __future__ import annotations

from typing import Any, Final

from holdfast.api.job_view import view_event
from holdfast.api.trace import trace_of
from holdfast.errors import HoldfastError, InvalidMove, InvalidPayload, NotFound
from holdfast.model import canonical
from holdfast.model import events as e
from holdfast.model.access import AccessScope
from holdfast.model.fork import ForkedEvent, fork_point, take_history
from holdfast.model.hash_chain import SealedEvent, unseal
from holdfast.server.page_schemas import (
    AskedOfModel,
    ForkedStep,
    ForkPreview,
    Step,
    WhereToFork,
    WhichStep,
)
from holdfast.server.request import ApiRequest
from holdfast.server.responses import ApiResponse
from holdfast.server.router import Endpoint


async def get_step(request: ApiRequest) -> ApiResponse:
    """Get one step: its span, ledger row, model request and events."""
    head = await request.head()
    key, generation = request.path["key"], request.query.generation
    sealed = await request.store.journal.read(head.job_id)
    spans = trace_of(head, sealed, now=request.house.clock.wall_us()).spans
    span = next(
        (
            sealed_event
            for sealed_event in spans
            if (sealed_event.step_key, sealed_event.generation) == (key, generation)
        ),
        None,
    )
    if span is None:
        msg = f"the journal has no step {key!r}" + (f" of generation {generation}" if generation else "")
        raise NotFound(msg, hint="GET the trace: it shows the steps.")
    facts = [
        (sealed_event, event)
        for sealed_event in sealed
        if (event := _read(sealed_event)) and _is_of(event, key, generation)
    ]
    digests = [str(getattr(event, "args_digest", "")) for _, event in facts]
    step = Step(
        span=span,
        args_digest=next((digest for digest in digests if digest), ""),
        ledger=await request.store.ledger.find(head.job_id, key, generation),
        request=await _request(request, sealed, key, generation),
        events=tuple(view_event(sealed_event) for sealed_event, _ in facts),
    )
    return ApiResponse(value=step, tagged=True)


def _read(sealed_event: SealedEvent) -> e.Event | None:
    """The event; None if it was erased, or if this version does not know its type."""
    try:
        return unseal(sealed_event)
    except HoldfastError:
        return None


def _is_of(event: e.Event, key: str, generation: int) -> bool:
    return _named(event) == key and getattr(event, "generation", 0) == generation


async def _request(
    api_request: ApiRequest, sealed: list[SealedEvent], key: str, generation: int
) -> AskedOfModel | None:
    """The request with the parts that it shares with earlier requests, each loaded from its blob."""
    first: dict[str, e.LlmRequested] = {}
    for sealed_event in sealed:
        event = _read(sealed_event) if sealed_event.type == e.LlmRequested.type else None
        if isinstance(event, e.LlmRequested):
            first.setdefault(f"{event.step_key}@{event.generation}", event)
    request = first.get(f"{key}@{generation}")
    if request is None:
        return None
    parts: list[str] = []
    link: e.LlmRequested | None = request
    follows = ""
    while link is not None:
        parts = [*link.messages, *parts]
        follows = link.after
        link = first.get(follows)
    bodies = [await _part(api_request, digest) for digest in parts]
    settings, *messages = bodies or [None]
    return AskedOfModel(model=request.model, settings=settings, messages=tuple(messages), follows=follows)


async def _part(request: ApiRequest, digest: str) -> Any:
    try:
        return canonical.decode_stored(await request.store.blobs.get(digest, namespace=request.namespace))
    except NotFound:
        return None  # erased: only its digest is left


async def preview_fork(request: ApiRequest) -> ApiResponse:
    """Preview a fork: results that it would share, and calls that it would make. Writes nothing."""
    query: WhereToFork = request.query
    if query.step is not None and query.seq is not None:
        raise InvalidPayload(
            "a fork needs either a step or an event", hint="Say step=… or seq=…, one of them."
        )
    head = await request.head()
    sealed = await request.store.journal.read(head.job_id)
    facts = [ForkedEvent(event.seq, event.at, unseal(event)) for event in sealed]
    before = fork_point(facts, query.step or query.seq or len(facts) + 1)
    taken: set[tuple[str, int]] = set()
    refused = hint = ""
    try:
        past = take_history(facts, before, job_id=head.job_id, namespace=head.namespace)
        events = [event for hold in past.holds for event, _ in hold]
        taken = {(step, 0) for step in map(_named, events) if step}
    except InvalidMove as error:
        refused, hint = str(error), error.hint
    if head.session_id is not None:
        refused = f"job {head.job_id} is a turn of session {head.session_id}, and cannot be forked"
        hint = "Start a new session from the state you want."
    steps = [
        ForkedStep(
            step_key=span.step_key,
            generation=span.generation,
            kind=span.kind,
            name=span.name,
            effect=span.effect,
            seq=span.seq,
            end_seq=span.end_seq,
        )
        for span in trace_of(head, sealed, now=request.house.clock.wall_us()).spans
    ]
    reused = [
        forked
        for forked in steps
        if (forked.step_key, 0) in taken and forked.end_seq is not None and forked.end_seq < before
    ]
    anew = [forked for forked in steps if forked not in reused]
    return ApiResponse(
        value=ForkPreview(before=before, taken=tuple(reused), anew=tuple(anew), refused=refused, hint=hint)
    )


def _named(event: e.Event) -> str:
    if isinstance(event, e.NodeStarted | e.NodeFinished):
        return f"{event.plan_id}/{event.node}"
    return str(getattr(event, "step_key", ""))


ENDPOINTS: Final = (
    Endpoint(
        method="GET",
        path="/api/jobs/{job_id}/fork",
        handle=preview_fork,
        query=WhereToFork,
        answers=ForkPreview,
        errors=(404, 422),
        scope=AccessScope.READ,
    ),
    Endpoint(
        method="GET",
        path="/api/jobs/{job_id}/steps/{key}",
        handle=get_step,
        query=WhichStep,
        answers=Step,
        statuses=(200, 304),
        errors=(404, 422),
        scope=AccessScope.READ,
    ),
)
