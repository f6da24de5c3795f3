"""Records of a simulated run: the crash points passed, the calls made, how it ended."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from holdfast.engine.audit_hook import OnUndurable
from holdfast.engine.runner_config import Program
from holdfast.errors import Refused
from holdfast.model import canonical
from holdfast.model.inbox import BatchDraft
from holdfast.model.jobs import JobDraft
from holdfast.model.side_effects import Effect


class PassedPoint(msgspec.Struct, frozen=True):
    """A crash point, the nth time, and the step in progress there."""

    point: str
    nth: int
    step: str

    @property
    def label(self) -> str:
        return self.point if self.nth == 1 else f"{self.point}#{self.nth}"


class MadeCall(msgspec.Struct, eq=False):
    """A call that was really made."""

    tool: str
    args: Any
    key: str
    effect: Effect
    relaunch: bool
    result: Any = None
    error: Exception | None = None
    returned: bool = False
    ended: bool = False

    @property
    def did_nothing(self) -> bool:
        return isinstance(self.error, Refused)

    @property
    def said(self) -> str:
        """The call as source code."""
        items = self.args.items() if isinstance(self.args, dict) else [("", self.args)]
        inside = ", ".join(f"{name}={value!r}" if name else repr(value) for name, value in items)
        return f"{self.tool}({inside})"

    @property
    def same(self) -> tuple[str, bytes]:
        return self.tool, canonical.encode(self.args)


Signals = tuple[tuple[str, Any], ...]
"""Names and bodies, in the order in which they are sent."""


class RunSettings(msgspec.Struct, frozen=True):
    """The settings that all runs of an agent share."""

    programs: Mapping[str, Program]
    queues: tuple[str, ...]
    draft: JobDraft
    message: BatchDraft | None
    """The message to a session, if the job is a turn of one."""
    signals: Signals
    approve: bool
    answers: tuple[tuple[str, Any], ...]
    strict: bool
    on_undurable: OnUndurable


class RunResult(msgspec.Struct, frozen=True, kw_only=True):
    """The result of a run. `passed` has the crash points of each worker, `reached` those where one was killed;
    `stopped` is the reason if the job did not end."""

    passed: list[list[PassedPoint]]
    reached: list[PassedPoint]
    calls: list[MadeCall]
    said: list[str]
    output: Any
    stopped: str | None
    report: Any = None
