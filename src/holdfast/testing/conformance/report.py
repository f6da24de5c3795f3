"""Run checks and report the results."""

from __future__ import annotations

import inspect
import traceback
from collections.abc import Iterable
from pathlib import Path

import msgspec

from holdfast.errors import InvalidSetting
from holdfast.testing.conformance.harness import Backend, Check, bench_on


class CheckResult(msgspec.Struct, frozen=True):
    """The result of one check. `fault` is None if it passed."""

    check: str
    fault: str | None = None


class Report(msgspec.Struct, frozen=True):
    """The results of a backend, for `print(report)`."""

    backend: str
    results: tuple[CheckResult, ...]

    @property
    def failed(self) -> tuple[CheckResult, ...]:
        return tuple(result for result in self.results if result.fault is not None)

    @property
    def passed(self) -> int:
        return len(self.results) - len(self.failed)

    def __bool__(self) -> bool:
        """Whether every check passed, and there was one."""
        return bool(self.results) and not self.failed

    def __str__(self) -> str:
        lines = [f"{self.backend}: {self.passed}/{len(self.results)}"]
        lines += [f"    {result.check}: {result.fault}" for result in self.failed]
        return "\n".join(lines)


async def run(backend: Backend, checks: Iterable[Check]) -> Report:
    """Run every check, each on a fresh store; a failed check does not stop the others.

    Raises:
        InvalidSetting: Python runs with assertions switched off, and every check would seem to pass.
    """
    if not __debug__:
        raise InvalidSetting("the checks are assertions and Python ignores them", hint="Run it without -O.")
    results = [CheckResult(name_of(check), await _run_check(backend, check)) for check in checks]
    return Report(backend.name, tuple(results))


def name_of(check: Check) -> str:
    name: str = getattr(check, "__name__", repr(check))
    return name


async def _run_check(backend: Backend, check: Check) -> str | None:
    try:
        async with bench_on(backend) as bench:
            await check(bench)
    except Exception as error:  # the report contains any error that a store raises
        return f"{type(error).__name__}: {error} ({_locate_error(check, error)})"
    return None


def _locate_error(check: Check, error: Exception) -> str:
    """The line in the check, not in the code that it called."""
    frames = traceback.extract_tb(error.__traceback__)
    own = [frame for frame in frames if frame.filename == inspect.getsourcefile(check)]
    frame = (own or frames)[-1]
    return f"{Path(frame.filename).name}:{frame.lineno}"
