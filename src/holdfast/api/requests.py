"""Request structs: their base and the types of their fields.

A request rejects an unknown field, so a typing error is reported and not ignored. The limits here are checked when a
request comes over HTTP, and are part of the OpenAPI document.
"""

from __future__ import annotations

from typing import Annotated, Final

import msgspec
from msgspec import Meta

from holdfast.model.limits import (
    INTEGER_MAX,
    NAME_LENGTH_MAX,
    PRIORITY_MAX,
    PRIORITY_MIN,
    ROWS_PER_PAGE_DEFAULT,
    ROWS_PER_PAGE_MAX,
)

WAIT_MS_MAX: Final = 30_000
"""How long one request may wait."""

# Limits of the OpenAPI document, checked by the model: an invalid name is the same error over every transport.
Name = Annotated[str, Meta(extra_json_schema={"minLength": 1, "maxLength": NAME_LENGTH_MAX})]
Whole = Annotated[int, Meta(ge=0, le=INTEGER_MAX)]
Limit = Annotated[int, Meta(ge=1, le=ROWS_PER_PAGE_MAX)]
Priority = Annotated[int, Meta(ge=PRIORITY_MIN, le=PRIORITY_MAX)]
JobId = Annotated[Name, Meta(description="The id of the job; a work item's id is its job's.")]
Why = Annotated[str, Meta(description="The reason; written into the journal.")]
By = Annotated[str, Meta(description="The person who decided; written into the journal.")]
WaitMs = Annotated[int, Meta(ge=0, le=WAIT_MS_MAX)]


class OperationRequest(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What the caller of an operation sends."""


class EmptyRequest(OperationRequest, frozen=True, kw_only=True):
    """No fields."""


class PageRequest(OperationRequest, frozen=True, kw_only=True):
    """A page of a list. The cursor of one page leads to the next."""

    limit: Annotated[Limit, Meta(description="How many at most.")] = ROWS_PER_PAGE_DEFAULT
    cursor: Annotated[str | None, Meta(description="`next` of the page before, to go on from there.")] = None


class CommandRequest(OperationRequest, frozen=True, kw_only=True):
    """A command: why, and who gives it. The operation id may come as `Idempotency-Key` instead."""

    why: Why = ""
    by: By = ""
    operation_id: Name | None = None
