"""Run outcomes: how a run ends without a result; the errors that `Execution.run` raises."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import msgspec

from holdfast.engine import failures
from holdfast.errors import CallFailed
from holdfast.model.append import Extras
from holdfast.model.events import TurnCommitted
from holdfast.model.replay_history import Recorded
from holdfast.model.states import WaitReason


class Parked(Exception):
    """The code does not fit its journal, and to continue could repeat an effect. `.report` says what differs."""

    def __init__(self, report: dict[str, Any]) -> None:
        super().__init__(report["why"])
        self.report = report


def park_job(why: str, recorded: Sequence[Recorded], name: str, step_key: str, args: Any) -> Parked:
    """Makes the outcome that parks the job. A person reads in it what is recorded and what the code attempted."""
    calls = [
        {"step_key": call.step_key, "name": call.name, "args_digest": call.args_digest} for call in recorded
    ]
    attempted = {"step_key": step_key, "name": name, "args": args}
    return Parked({"why": why, "recorded": calls, "attempted": attempted})


class Asleep(Exception):
    """Every task waits for something that may take long: the job is suspended, and no worker holds it."""

    def __init__(self, reason: WaitReason, wake_at: int | None) -> None:
        super().__init__(reason)
        self.reason = reason
        self.wake_at = wake_at

    def wake_by(self, at: int) -> Asleep:
        """A copy that wakes at this time at the latest."""
        return Asleep(self.reason, at if self.wake_at is None else min(at, self.wake_at))


class Stalled(Exception):
    """The code has waited too long for something that is not durable. `.report` names the line where each
    task waits."""

    def __init__(self, report: dict[str, Any]) -> None:
        super().__init__(report["why"])
        self.report = report


class Failed(Exception):
    """The job's function raised. `.rerun` are the keys of the calls that caused it."""

    def __init__(self, error: Exception, rerun: tuple[str, ...]) -> None:
        super().__init__(str(error))
        self.error = error
        self.rerun = rerun


def output_of(
    root: asyncio.Task[Any], ending: Exception | None, raised: Sequence[tuple[Exception, str]]
) -> Any:
    """Returns the function's result, or raises how the run ended. `raised` are the errors of calls, with their keys."""
    if ending is not None:
        root.cancelled() or root.exception()  # retrieved, so that asyncio does not log it
        raise ending
    try:
        return root.result()
    except asyncio.CancelledError as error:
        gave_up = CallFailed("the function of the job cancelled itself", error_type="CancelledError")
        raise Failed(gave_up, ()) from error
    except Exception as error:
        raise Failed(error, failures.find_failed_steps(error, raised)) from error


class TurnOutput(msgspec.Struct, frozen=True):
    """Return value of a program that runs a turn of a session: its output, and the turn, which is one append with
    `job_completed`."""

    output: Any
    event: TurnCommitted
    extras: Extras


class Interrupted(Exception):
    """The run was cancelled from outside: the loop or the process ends. The job's code did not decide it."""


class Uncovered(Exception):
    """The lease could not be renewed in time to start a call."""


class Stopped(BaseException):
    """This run is over, and its code is being ended. Code must not catch it and continue."""
