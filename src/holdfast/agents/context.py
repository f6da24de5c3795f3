"""The job that runs here: how the plain functions of the surface find their run."""

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
"""The run whose code this is. Tools read it themselves: every call passes there."""


def enter(drive: Execution, context: Context) -> None:
    """From here on, in this task and those it starts, the surface speaks to this run. Programs begin with it."""
    CURRENT.set((drive, context))
    drive.scheduler.begin_code()


def find_drive() -> Execution | None:
    """The run of the job whose code this is; None outside a job."""
    current = CURRENT.get()
    return None if current is None else current[0]


def drive(what: str) -> Execution:
    """The run of the job whose code this is; or an error that says where `what` belongs."""
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
