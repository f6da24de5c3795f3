"""Audit log of the server: records privileged actions before their response is sent, and rejections.

The journal is the truth about a job, and is written first. A process that dies between the two writes leaves an
action without its audit entry; the same request, sent again under its key, is answered from the journal and then
writes the entry. The id of an entry is derived from the action, so no action has two.

Rejections are recorded once a minute for each caller, endpoint and reason: a thousand attempts do not fill the disk.
"""

from __future__ import annotations

import logging
from typing import Final

from holdfast.errors import Forbidden, HoldfastError, KeyReused, NotFound, TurnConflict
from holdfast.model.audit import ActDraft, act_id
from holdfast.model.time import MINUTE
from holdfast.server.origin_checks import Principal
from holdfast.server.problems import Refusal
from holdfast.server.request import ApiRequest, House
from holdfast.server.responses import ApiResponse
from holdfast.server.router import Endpoint

_log: Final = logging.getLogger("holdfast.server")


async def record_act(request: ApiRequest, endpoint: Endpoint, answer: ApiResponse) -> None:
    """Writes the entry of an action. If that fails there is no response: the caller repeats the request, and it is
    written then."""
    value = answer.value
    operation_id = getattr(value, "operation_id", "") or request.request_id
    await note(request, endpoint.audited, request.path, getattr(value, "job_id", ""), operation_id)


async def note(
    request: ApiRequest, action: str, path: dict[str, str], job_id: str, operation_id: str
) -> None:
    """Writes the entry of one action on one object."""
    body = request.body
    act = ActDraft(
        act_id=act_id(action, *sorted(path.values()), operation_id),
        what=action,
        who=request.principal.name,
        object=_object(path),
        reason=getattr(body, "why", ""),
        request_id=request.request_id,
        detail=f"job {job_id}, by {getattr(body, 'by', '') or 'unnamed'}, operation {operation_id}",
        namespace=request.namespace,
    )
    await request.store.audit.write(act)


async def record_refusal(
    state: House,
    principal: Principal,
    endpoint: Endpoint,
    path: dict[str, str],
    request_id: str,
    refusal: HoldfastError | Refusal,
) -> None:
    """Writes the entry of a rejection, if it is relevant. A failure of this write does not change the response."""
    error = refusal.error if isinstance(refusal, Refusal) else refusal
    action = _worth(error, endpoint)
    if action is None:
        return
    minute = state.clock.wall_us() // MINUTE
    act = ActDraft(
        act_id=act_id(
            action, principal.name, endpoint.name, str(minute), _object(path) if action != _ROLE else ""
        ),
        what=action,
        who=principal.name,
        object=_object(path),
        reason=str(error),
        request_id=request_id,
        detail=f"{endpoint.method} {endpoint.path}",
        namespace=principal.namespace,
    )
    try:
        await state.store.audit.write(act)
    except HoldfastError as failure:
        _log.warning(
            "request %s: its rejection could not be written to the audit log: %s", request_id, failure.code
        )


_ROLE: Final = "refused.role"


def _worth(error: HoldfastError, endpoint: Endpoint) -> str | None:
    """The action name for the log; None for errors that any caller may make."""
    if isinstance(error, Forbidden):
        return _ROLE
    if isinstance(error, KeyReused | TurnConflict):
        return "refused.other_body"
    if isinstance(error, NotFound) and endpoint.audited:
        return "refused.not_there"
    return None


def _object(path: dict[str, str]) -> str:
    return " ".join(path.values())
