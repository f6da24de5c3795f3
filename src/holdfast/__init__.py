"""Holdfast: a durable runtime for AI agents.

    import holdfast as hf

    @hf.tool(effect="read_only")
    async def lookup(order: str) -> str: ...

    @hf.agent
    async def support(question: str) -> str: ...

    answer = await support("where is order 42?")

These are the public names. They are loaded when they are first used, so that importing the package costs nothing.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from holdfast.agents.agents import Agent, spawn
    from holdfast.agents.ask import ask
    from holdfast.agents.context import Context, context
    from holdfast.agents.conversation import Session
    from holdfast.agents.delegate import delegate
    from holdfast.agents.job_handle import Job
    from holdfast.agents.mcp import mcp
    from holdfast.agents.models.client_transport import wrap
    from holdfast.agents.models.messages import assistant, user
    from holdfast.agents.models.model import Model, Reply, llm
    from holdfast.agents.models.prices import Price
    from holdfast.agents.models.provider_limits import Limits
    from holdfast.agents.models.response_cache import Cache
    from holdfast.agents.plans import NodeOutcome, execute, plan
    from holdfast.agents.policy import Policy
    from holdfast.agents.primitives import checkpoint, emit, now, random, restore, scope, sleep, uuid, wait
    from holdfast.agents.schemas import schemas
    from holdfast.agents.secrets import Secret, secret, use_secrets
    from holdfast.agents.sessions import Turn
    from holdfast.agents.signatures import KEY, Key
    from holdfast.agents.subprocesses import run_process
    from holdfast.agents.tool_calls import run_tools
    from holdfast.agents.tools import CannotTell, Happened, NotHappened, Tool
    from holdfast.errors import CallFailed, Denied, HoldfastError, JobTimedOut, PlanFailed, Refused
    from holdfast.model.budget import Budget
    from holdfast.model.plan import Node, Plan
    from holdfast.model.plan_refs import Ref
    from holdfast.model.retry import Retry
    from holdfast.model.streams import AttemptSuperseded, Chunk
    from holdfast.model.work import Work
    from holdfast.runtime.app import App, Assistant, agent, schedule, session, step, tool
    from holdfast.runtime.store_opener import open_store

_WHERE: Final = {
    "holdfast.agents.agents": ("Agent", "spawn"),
    "holdfast.agents.ask": ("ask",),
    "holdfast.agents.tool_calls": ("run_tools",),
    "holdfast.agents.context": ("Context", "context"),
    "holdfast.agents.conversation": ("Session",),
    "holdfast.agents.delegate": ("delegate",),
    "holdfast.agents.job_handle": ("Job",),
    "holdfast.agents.mcp": ("mcp",),
    "holdfast.agents.models.response_cache": ("Cache",),
    "holdfast.agents.models.model": ("Model", "Reply", "llm"),
    "holdfast.agents.models.provider_limits": ("Limits",),
    "holdfast.agents.models.prices": ("Price",),
    "holdfast.agents.models.messages": ("assistant", "user"),
    "holdfast.agents.models.client_transport": ("wrap",),
    "holdfast.agents.plans": ("NodeOutcome", "execute", "plan"),
    "holdfast.agents.policy": ("Policy",),
    "holdfast.agents.subprocesses": ("run_process",),
    "holdfast.agents.schemas": ("schemas",),
    "holdfast.agents.secrets": ("Secret", "secret", "use_secrets"),
    "holdfast.agents.sessions": ("Turn",),
    "holdfast.agents.signatures": ("KEY", "Key"),
    "holdfast.agents.tools": ("CannotTell", "Happened", "NotHappened", "Tool"),
    "holdfast.agents.primitives": (
        "checkpoint",
        "emit",
        "now",
        "random",
        "restore",
        "scope",
        "sleep",
        "uuid",
        "wait",
    ),
    "holdfast.errors": ("CallFailed", "Denied", "HoldfastError", "JobTimedOut", "PlanFailed", "Refused"),
    "holdfast.model.budget": ("Budget",),
    "holdfast.model.plan": ("Node", "Plan"),
    "holdfast.model.plan_refs": ("Ref",),
    "holdfast.model.retry": ("Retry",),
    "holdfast.model.streams": ("AttemptSuperseded", "Chunk"),
    "holdfast.model.work": ("Work",),
    "holdfast.runtime.app": ("App", "Assistant", "agent", "schedule", "session", "step", "tool"),
    "holdfast.runtime.store_opener": ("open_store",),
}
_MODULE_OF: Final = {name: module for module, names in _WHERE.items() for name in names}

__all__ = [
    "KEY",
    "Agent",
    "App",
    "Assistant",
    "AttemptSuperseded",
    "Budget",
    "Cache",
    "CallFailed",
    "CannotTell",
    "Chunk",
    "Context",
    "Denied",
    "Happened",
    "HoldfastError",
    "Job",
    "JobTimedOut",
    "Key",
    "Limits",
    "Model",
    "Node",
    "NodeOutcome",
    "NotHappened",
    "Plan",
    "PlanFailed",
    "Policy",
    "Price",
    "Ref",
    "Refused",
    "Reply",
    "Retry",
    "Secret",
    "Session",
    "Tool",
    "Turn",
    "Work",
    "agent",
    "ask",
    "assistant",
    "checkpoint",
    "context",
    "delegate",
    "emit",
    "execute",
    "llm",
    "mcp",
    "now",
    "open_store",
    "plan",
    "random",
    "restore",
    "run_process",
    "run_tools",
    "schedule",
    "schemas",
    "scope",
    "secret",
    "session",
    "sleep",
    "spawn",
    "step",
    "tool",
    "use_secrets",
    "user",
    "uuid",
    "wait",
    "wrap",
]


def __getattr__(name: str) -> Any:
    if name not in _MODULE_OF:
        msg = f"module 'holdfast' has no attribute {name!r}"
        raise AttributeError(msg)
    value = getattr(importlib.import_module(_MODULE_OF[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
