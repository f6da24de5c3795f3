"""What is written into the audit log: privileged acts before they are answered, and what was refused.

The journal is the truth about a job, and has the act first. A process that dies between the two leaves an act without
its line; the same request, sent again under its key, is answered from the journal and writes the line then. A line's id
follows from the act, so no act has two.

Refusals are noted once a minute for each caller, endpoint and reason: who tries a thousand times fills no disk.
"""

from __future__ import annotations

import logging
from typing import Final

from holdfast.errors import Forbidden, HoldfastError, KeyReused, NotFound, TurnConflict
from holdfast.model.audit import ActDraft, act_id
from holdfast.model.time import MINUTE
from holdfast.server.endpoints import Endpoint
from holdfast.server.origin_checks import Principal
from holdfast.server.problems import Refusal
from holdfast.server.request import ApiRequest, House
from holdfast.server.responses import ApiResponse

_log: Final = logging.getLogger("holdfast.server")


async def record_act(asked: ApiRequest, endpoint: Endpoint, answer: ApiResponse) -> None:
    """The act has its line. Without it there is no answer: the caller asks again, and it is written then."""
    value = answer.value
    operation_id = getattr(value, "operation_id", "") or asked.request_id
    await note(asked, endpoint.audited, asked.path, getattr(value, "job_id", ""), operation_id)


async def note(asked: ApiRequest, what: str, path: dict[str, str], job_id: str, operation_id: str) -> None:
    """One act on one thing has its line."""
    body = asked.body
    act = ActDraft(
        act_id=act_id(what, *sorted(path.values()), operation_id),
        what=what,
        who=asked.principal.name,
        object=_object(path),
        reason=getattr(body, "why", ""),
        request_id=asked.request_id,
        detail=f"job {job_id}, by {getattr(body, 'by', '') or 'unnamed'}, operation {operation_id}",
        namespace=asked.namespace,
    )
    await asked.store.audit.write(act)


async def record_refusal(
    house: House,
    principal: Principal,
    endpoint: Endpoint,
    path: dict[str, str],
    request_id: str,
    refusal: HoldfastError | Refusal,
) -> None:
    """What was refused is noted, if it is worth it. That it cannot be noted changes no answer."""
    error = refusal.error if isinstance(refusal, Refusal) else refusal
    what = _worth(error, endpoint)
    if what is None:
        return
    minute = house.clock.wall_us() // MINUTE
    act = ActDraft(
        act_id=act_id(
            what, principal.name, endpoint.name, str(minute), _object(path) if what != _ROLE else ""
        ),
        what=what,
        who=principal.name,
        object=_object(path),
        reason=str(error),
        request_id=request_id,
        detail=f"{endpoint.method} {endpoint.path}",
        namespace=principal.namespace,
    )
    try:
        await house.store.audit.write(act)
    except HoldfastError as failure:
        _log.warning(
            "request %s: its rejection could not be written to the audit log: %s", request_id, failure.code
        )


_ROLE: Final = "refused.role"


def _worth(error: HoldfastError, endpoint: Endpoint) -> str | None:
    """What to call it in the log; None for what everybody may get wrong."""
    if isinstance(error, Forbidden):
        return _ROLE
    if isinstance(error, KeyReused | TurnConflict):
        return "refused.other_body"
    if isinstance(error, NotFound) and endpoint.audited:
        return "refused.not_there"
    return None


def _object(path: dict[str, str]) -> str:
    return " ".join(path.values())
