"""Errors on the wire: problem documents (RFC 9457) with the codes of `holdfast.errors`.

A caller's mistake and a conflict are told in full: that text is about what the caller sent. What is wrong with the
store or with us is told by its code alone; the text, which may name a path or a statement, goes to the log.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

import msgspec

from holdfast.errors import (
    Busy,
    Conflict,
    Forbidden,
    HoldfastError,
    InvalidMove,
    InvalidName,
    InvalidPayload,
    InvalidPlan,
    Misuse,
    NotAllowed,
    NotFound,
    NotOver,
    TooLarge,
    Unauthorized,
    Unavailable,
)

MEDIA_TYPE: Final = "application/problem+json"
RETRY_AFTER_S: Final = 1

STATUSES: Final[dict[type[HoldfastError], int]] = {
    NotFound: 404,
    TooLarge: 413,
    InvalidPayload: 422,
    InvalidName: 422,
    InvalidPlan: 422,
    InvalidMove: 409,
    NotAllowed: 403,
    Unauthorized: 401,
    Forbidden: 403,
    Misuse: 400,
    Conflict: 409,
    Busy: 429,
    Unavailable: 503,
}

_TOLD: Final = (Misuse, Conflict, NotOver)


class Problem(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Problem document: what happened, whether to retry, and what to do.

    `code` is stable. `retry`: the same request may succeed later. `pointer` is the place in the body. `details` are
    further fields of the error, such as the two digests of a reused key.
    """

    type: str
    title: str
    status: int
    code: str
    detail: str
    hint: str
    request_id: str
    retry: bool = False
    pointer: str | None = None
    details: dict[str, Any] = {}


class Refusal(Exception):
    """An error with a status of its own, where its family's would say too little."""

    def __init__(
        self,
        status: int,
        error: HoldfastError,
        *,
        headers: Mapping[str, str] | None = None,
        pointer: str | None = None,
    ) -> None:
        super().__init__(str(error))
        self.status = status
        self.error = error
        self.headers = dict(headers or {})
        self.pointer = pointer


def status_of(error: HoldfastError) -> int:
    """The status for this error: the nearest class in the table; 500 if nothing there fits."""
    return next((STATUSES[kind] for kind in type(error).__mro__ if kind in STATUSES), 500)


def make_problem(error: HoldfastError, status: int, request_id: str, pointer: str | None = None) -> Problem:
    """The error as a caller may see it."""
    kind = type(error)
    title = title_of(kind)
    open_book = isinstance(error, _TOLD) or status == 429
    return Problem(
        type=f"urn:holdfast:error:{kind.code}",
        title=title,
        status=status,
        code=kind.code,
        detail=str(error)
        if open_book
        else f"{title.lower()}; the server's log has details under this request id",
        hint=error.hint if open_book else kind.default_hint,
        request_id=request_id,
        retry=kind.retry,
        pointer=pointer,
        details=_facts(error) if open_book else {},
    )


def make_internal_error(request_id: str) -> Problem:
    """The problem document of an unexpected error: it names only where to look."""
    return Problem(
        type="urn:holdfast:error:error",
        title="Internal error",
        status=500,
        code=HoldfastError.code,
        detail="internal error; the server's log has details under this request id",
        hint=HoldfastError.default_hint,
        request_id=request_id,
    )


def title_of(kind: type[HoldfastError]) -> str:
    """The class's name as words: `KeyReused` is "Key reused"."""
    return re.sub(r"(?<!^)([A-Z])", lambda found: " " + found[1].lower(), kind.__name__)


def _facts(error: HoldfastError) -> dict[str, Any]:
    """What the class keeps beside its text."""
    return {name: value for name, value in vars(error).items() if name != "hint"}
