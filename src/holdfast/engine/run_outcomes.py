"""Run outcomes: how a run ends other than by its function returning; what `Execution.run` raises."""

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
    """The code does not fit its journal, and going on could act twice. `.report` says what differs."""

    def __init__(self, report: dict[str, Any]) -> None:
        super().__init__(report["why"])
        self.report = report


def park_job(why: str, recorded: Sequence[Recorded], name: str, step_key: str, args: Any) -> Parked:
    """The job waits for a person, who reads what the journal says and what the code wanted."""
    told = [{"step_key": one.step_key, "name": one.name, "args_digest": one.args_digest} for one in recorded]
    attempted = {"step_key": step_key, "name": name, "args": args}
    return Parked({"why": why, "recorded": told, "attempted": attempted})


class Asleep(Exception):
    """Every task waits for something that may take long: nobody needs to hold the job meanwhile."""

    def __init__(self, reason: WaitReason, wake_at: int | None) -> None:
        super().__init__(reason)
        self.reason = reason
        self.wake_at = wake_at

    def wake_by(self, at: int) -> Asleep:
        """The same, until this time at the latest."""
        return Asleep(self.reason, at if self.wake_at is None else min(at, self.wake_at))


class Stalled(Exception):
    """The code waits for something that is not durable and has not come for long. `.report` says where it stands."""

    def __init__(self, report: dict[str, Any]) -> None:
        super().__init__(report["why"])
        self.report = report


class Failed(Exception):
    """The job's function raised. `.rerun` are the calls whose own failure it was."""

    def __init__(self, error: Exception, rerun: tuple[str, ...]) -> None:
        super().__init__(str(error))
        self.error = error
        self.rerun = rerun


def output_of(
    root: asyncio.Task[Any], ending: Exception | None, raised: Sequence[tuple[Exception, str]]
) -> Any:
    """How the function ended, unless the run was ended before. `raised` are the errors of calls, with their keys."""
    if ending is not None:
        root.cancelled() or root.exception()  # looked at, so that nobody else complains about it
        raise ending
    try:
        return root.result()
    except asyncio.CancelledError as error:
        gave_up = CallFailed("the function of the job cancelled itself", error_type="CancelledError")
        raise Failed(gave_up, ()) from error
    except Exception as error:
        raise Failed(error, failures.causes(error, raised)) from error


class TurnOutput(msgspec.Struct, frozen=True):
    """What a program returns that took a turn of a session: its output, and the turn, which is one append with
    `job_completed`."""

    output: Any
    event: TurnCommitted
    extras: Extras


class Interrupted(Exception):
    """The run was cancelled from outside: the loop or the process ends. That is no decision of the job's code."""


class Uncovered(Exception):
    """The lease could not be renewed in time to start anything under it."""


class Stopped(BaseException):
    """This run is over and code that still runs is being ended. Nothing may catch it and go on."""
