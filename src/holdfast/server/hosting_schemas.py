"""What is asked about agents, schedules, queues and namespaces, as types."""

from __future__ import annotations

from typing import Annotated, Any

import msgspec
from msgspec import Meta

from holdfast.model.configured_agents import TOOLS_MAX
from holdfast.model.inbox import Delivery, SlotPolicy
from holdfast.model.jobs import DEFAULT_QUEUE
from holdfast.model.limits import INTEGER_MAX, PRIORITY_DEFAULT, PRIORITY_MAX, PRIORITY_MIN
from holdfast.model.queue_limits import QueueLimits
from holdfast.model.schedule import CatchUp
from holdfast.server.schemas import Asks, Name, Whole
from holdfast.store.ports.namespaces import NamespaceRecord


class NewAgent(Asks, frozen=True, kw_only=True):
    """A configured agent: its model, its instructions, and the names of its tools."""

    name: Name
    model: Name | None = None
    instructions: str = ""
    tools: Annotated[tuple[Name, ...], Meta(max_length=TOOLS_MAX)] = ()
    context_tokens_max: Annotated[int, Meta(ge=1, le=INTEGER_MAX)] | None = None
    request_key: Name | None = None


class NewMessage(Asks, frozen=True, kw_only=True):
    """A message to an agent: `text`, or `content` of any kind. Without a `session_id` it belongs to the agent's one
    conversation. Its id or its `Idempotency-Key` is its idempotency key: sent again, it is the same message."""

    text: str | msgspec.UnsetType = msgspec.UNSET
    content: Any = msgspec.UNSET
    session_id: Name | None = None
    delivery: Delivery = Delivery.EARLIEST_SAFE_BOUNDARY
    slot: SlotPolicy = SlotPolicy.JOIN
    id: Name | None = None
    request_key: Name | None = None


class NewSchedule(Asks, frozen=True, kw_only=True):
    """A schedule: a cron expression (minute, hour, day, month, weekday) in a time zone. Its id makes it idempotent."""

    id: Name
    kind: Name
    cron: Name
    time_zone: Name = "UTC"
    catch_up: CatchUp = CatchUp.SKIP
    input: Any = None
    queue: Name = DEFAULT_QUEUE
    priority: Annotated[int, Meta(ge=PRIORITY_MIN, le=PRIORITY_MAX)] = PRIORITY_DEFAULT


class Plain(Asks, frozen=True, kw_only=True):
    """No parameters."""


class LimitsOfQueue(Asks, frozen=True, kw_only=True):
    """Limits of a queue. None: no limit."""

    depth_max: Whole | None = None
    age_max_us: Whole | None = None


class NewNamespace(Asks, frozen=True, kw_only=True):
    namespace: Name


class QueueList(msgspec.Struct, frozen=True, kw_only=True):
    items: tuple[QueueLimits, ...]


class NamespaceList(msgspec.Struct, frozen=True, kw_only=True):
    items: tuple[NamespaceRecord, ...]
