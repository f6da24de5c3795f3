"""What is asked about agents and workers, as types."""

from __future__ import annotations

from typing import Annotated, Any

import msgspec
from msgspec import Meta

from holdfast.model.hosted import TOOLS_MAX
from holdfast.model.inbox import Delivery, SlotPolicy
from holdfast.model.limits import INTEGER_MAX
from holdfast.service.shapes import Asks, Name


class NewAgent(Asks, frozen=True, kw_only=True):
    """An agent: a model by its name, what it is told, and tools of the application by theirs."""

    name: Name
    model: Name | None = None
    instructions: str = ""
    tools: Annotated[tuple[Name, ...], Meta(max_length=TOOLS_MAX)] = ()
    context_tokens_max: Annotated[int, Meta(ge=1, le=INTEGER_MAX)] | None = None


class NewMessage(Asks, frozen=True, kw_only=True):
    """A message to an agent: `text`, or `content` of any kind. Without a `session_id` it belongs to the agent's one
    conversation. Its id or its `Idempotency-Key` stands for it: sent again, it is the same message."""

    text: str | msgspec.UnsetType = msgspec.UNSET
    content: Any = msgspec.UNSET
    session_id: Name | None = None
    delivery: Delivery = Delivery.EARLIEST_SAFE_BOUNDARY
    slot: SlotPolicy = SlotPolicy.JOIN
    id: Name | None = None
    request_key: Name | None = None
