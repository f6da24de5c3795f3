"""Queries and responses of the endpoints that are about the server itself or give files and streams."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from holdfast.api.requests import Name, OperationRequest, Whole
from holdfast.model.limits import EVENTS_PER_PAGE_MAX


class WhichLines(OperationRequest, frozen=True, kw_only=True):
    """Lines of a log after this number."""

    after: Whole = 0
    limit: Annotated[int, Meta(ge=1, le=EVENTS_PER_PAGE_MAX)] = EVENTS_PER_PAGE_MAX


class WhichChunks(OperationRequest, frozen=True, kw_only=True):
    """`after` is the cursor of the last chunk that the client has, if it cannot send `Last-Event-ID`."""

    after: str | None = None
    stream: Name | None = None


class WhichNews(OperationRequest, frozen=True, kw_only=True):
    """`after`: the id of the last event that the client has, if it cannot send `Last-Event-ID`."""

    after: str | None = None


class Health(msgspec.Struct, frozen=True, kw_only=True):
    """`degraded` names what does not work as it should; the store's tier says what it survives."""

    status: Literal["ok", "degraded", "draining", "unavailable"]
    timestamp: str
    tier: str | None = None
    degraded: tuple[str, ...] = ()
