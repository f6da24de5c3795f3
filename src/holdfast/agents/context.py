"""The current execution: how the functions of the authoring API find the job that they run in."""

from __future__ import annotations

import contextvars
from typing import Final

import msgspec

from holdfast.engine.execution import Execution
from holdfast.errors import InvalidMove


class Context(msgspec.Struct, frozen=True):
    """What code may know about the job it runs in."""

    job_id: str
    namespace: str
    kind: str


CURRENT: Final[contextvars.ContextVar[tuple[Execution, Context] | None]] = contextvars.ContextVar(
    "holdfast_context", default=None
)
"""The execution and the job of the running code. Tools read it directly: it is on the path of every call."""


def enter(execution: Execution, context: Context) -> None:
    """Sets the execution for this task and those that it starts. Every program begins with it."""
    CURRENT.set((execution, context))
    execution.scheduler.begin_code()


def find_drive() -> Execution | None:
    """The execution of the running code; None outside a job."""
    current = CURRENT.get()
    return None if current is None else current[0]


def drive(what: str) -> Execution:
    """The execution of the running code; outside a job, raises an error that says where `what` belongs."""
    current = CURRENT.get()
    if current is None:
        msg = f"{what} outside a job"
        raise InvalidMove(msg, hint=f"Call {what} from an agent's function, or from a task it started.")
    return current[0]


def context() -> Context:
    """The job that this code runs in."""
    current = CURRENT.get()
    if current is None:
        msg = "this code does not run inside a job"
        raise InvalidMove(msg, hint="Use the context inside an agent's function.")
    return current[1]
