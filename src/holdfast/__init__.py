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
    from holdfast.agents.calls import run_tools
    from holdfast.agents.context import Context, context
    from holdfast.agents.jobs import Job
    from holdfast.agents.models.model import Model, Reply, llm
    from holdfast.agents.models.patience import Limits
    from holdfast.agents.models.prices import Price
    from holdfast.agents.models.talk import assistant, user
    from holdfast.agents.models.transport import wrap
    from holdfast.agents.policy import Policy
    from holdfast.agents.processes import run_process
    from holdfast.agents.schemas import schemas
    from holdfast.agents.signatures import Key
    from holdfast.agents.tools import CannotTell, Happened, NotHappened, Tool
    from holdfast.agents.words import checkpoint, emit, now, random, restored, scope, sleep, uuid, wait
    from holdfast.errors import HoldfastError, Refused
    from holdfast.model.budget import Budget
    from holdfast.model.streams import AttemptSuperseded, Chunk
    from holdfast.runtime.app import App, agent, step, tool
    from holdfast.runtime.stores import open_store

_WHERE: Final = {
    "holdfast.agents.agents": ("Agent", "spawn"),
    "holdfast.agents.calls": ("run_tools",),
    "holdfast.agents.context": ("Context", "context"),
    "holdfast.agents.jobs": ("Job",),
    "holdfast.agents.models.model": ("Model", "Reply", "llm"),
    "holdfast.agents.models.patience": ("Limits",),
    "holdfast.agents.models.prices": ("Price",),
    "holdfast.agents.models.talk": ("assistant", "user"),
    "holdfast.agents.models.transport": ("wrap",),
    "holdfast.agents.policy": ("Policy",),
    "holdfast.agents.processes": ("run_process",),
    "holdfast.agents.schemas": ("schemas",),
    "holdfast.agents.signatures": ("Key",),
    "holdfast.agents.tools": ("CannotTell", "Happened", "NotHappened", "Tool"),
    "holdfast.agents.words": (
        "checkpoint",
        "emit",
        "now",
        "random",
        "restored",
        "scope",
        "sleep",
        "uuid",
        "wait",
    ),
    "holdfast.errors": ("HoldfastError", "Refused"),
    "holdfast.model.budget": ("Budget",),
    "holdfast.model.streams": ("AttemptSuperseded", "Chunk"),
    "holdfast.runtime.app": ("App", "agent", "step", "tool"),
    "holdfast.runtime.stores": ("open_store",),
}
_MODULE_OF: Final = {name: module for module, names in _WHERE.items() for name in names}

__all__ = [
    "Agent",
    "App",
    "AttemptSuperseded",
    "Budget",
    "CannotTell",
    "Chunk",
    "Context",
    "Happened",
    "HoldfastError",
    "Job",
    "Key",
    "Limits",
    "Model",
    "NotHappened",
    "Policy",
    "Price",
    "Refused",
    "Reply",
    "Tool",
    "agent",
    "assistant",
    "checkpoint",
    "context",
    "emit",
    "llm",
    "now",
    "open_store",
    "random",
    "restored",
    "run_process",
    "run_tools",
    "schemas",
    "scope",
    "sleep",
    "spawn",
    "step",
    "tool",
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
