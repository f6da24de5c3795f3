"""A store with jobs in it that the engine has brought there, and the commands run on it."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any, TypeVar

import pytest

from holdfast.cli.entry_point import run
from holdfast.cli.root import holdfast
from holdfast.model.ids import RandomIds
from holdfast.model.time import HOUR
from holdfast.runtime import open_store
from holdfast.store.clock import VirtualClock
from tests.api.client.job_states import Lives
from tests.support.fixtures.stores import postgres_template

__all__ = ["desk", "postgres_template"]

T = TypeVar("T")


class Done:
    """What a command printed, and how it ended."""

    def __init__(self, status: int, out: str, err: str) -> None:
        self.status, self.out, self.err = status, out, err

    @property
    def json(self) -> Any:
        return json.loads(self.out)

    @property
    def lines(self) -> list[Any]:
        return [json.loads(line) for line in self.out.splitlines()]


class CommandDesk:
    """Somebody at a terminal of 80 columns."""

    def __init__(
        self, where: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        self.where = where
        self._capsys = capsys
        self._monkeypatch = monkeypatch
        monkeypatch.setenv("HOLDFAST_STORE", where)
        monkeypatch.setenv("HOLDFAST_BY", "ada")
        self.columns(80)

    def columns(self, width: int) -> None:
        self._monkeypatch.setenv("COLUMNS", str(width))

    def type(self, *arguments: str) -> Done:
        """The command, in this process, as `holdfast` runs it."""
        self._capsys.readouterr()
        status = run(holdfast, arguments)
        said = self._capsys.readouterr()
        assert "Traceback" not in said.err
        return Done(status, said.out, said.err)

    def live(self, work: Callable[[Lives], Coroutine[Any, Any, T]], *, ago_us: int = HOUR) -> T:
        """What the engine makes of this work, done so long ago."""

        async def do() -> T:
            # A boot of its own: within one boot store time goes on, whatever the wall clock says.
            clock = VirtualClock(time.time_ns() // 1000 - ago_us, boot=RandomIds().new("boot"))
            store = await open_store(self.where, clock=clock, ids=RandomIds())
            try:
                return await work(Lives(store, clock))
            finally:
                await store.close()

        return asyncio.run(do())

    def go_on(self) -> list[str]:
        """What workers with the code make of everything that can be claimed now."""

        async def work(one: Lives) -> list[str]:
            for program in (one.refund, one.report, one.hopeless, one.nap):
                one.programs[program.__name__] = program
            return await one.go_on()

        return self.live(work, ago_us=0)


@pytest.fixture
def desk(
    request: pytest.FixtureRequest, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> CommandDesk:
    """On SQLite, or on the store that the parameter names."""
    if getattr(request, "param", "sqlite") == "postgres":
        return CommandDesk(request.getfixturevalue("postgres_database"), capsys, monkeypatch)
    folder: Path = request.getfixturevalue("volatile_folder")
    return CommandDesk(f"sqlite:///{folder / 'holdfast.db'}", capsys, monkeypatch)
