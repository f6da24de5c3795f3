"""A task that outlives the agent's function is named in the log: what it had left to do is never done."""

from __future__ import annotations

import asyncio
import contextlib
from pathlib import Path

import pytest

import holdfast as hf
from holdfast.engine import orphan_tasks
from holdfast.engine.replay_check import replay
from holdfast.store.clock import SystemClock

pytestmark = pytest.mark.store("sqlite")


@pytest.fixture
def app(tmp_path: Path) -> hf.App:
    return hf.App(store=f"sqlite:///{tmp_path / 'test.db'}")


@pytest.fixture(autouse=True)
def _nothing_named_yet(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(orphan_tasks, "_named", set())


def warnings_of(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.name == "holdfast.tasks"]


async def test_a_task_that_is_left_behind_is_named(app: hf.App, caplog: pytest.LogCaptureFixture) -> None:
    sent: list[str] = []

    @app.tool(effect="unsafe")
    async def send_mail(to: str) -> None:
        sent.append(to)

    async def mail_later() -> None:
        await asyncio.sleep(0.2)
        await send_mail("ada")

    @app.agent
    async def forgetful() -> str:
        task = asyncio.create_task(mail_later())
        await asyncio.sleep(0)
        return f"done: {task.done()}"

    async with app.running() as process:
        job = await forgetful.start()
        assert await job.result() == "done: False"
        assert await forgetful() == "done: False"
        assert (await replay(process.store, job.id, forgetful.program, clock=SystemClock())).same
    (line,) = warnings_of(caplog)
    assert not sent
    assert f"job {job.id} returned while its task" in line
    assert "mail_later was not done" in line
    assert f"(at {__file__}:" in line


async def test_a_tool_that_nobody_awaits_is_named_by_its_function(
    app: hf.App, caplog: pytest.LogCaptureFixture
) -> None:
    @app.tool(effect="unsafe")
    async def send_mail(to: str) -> None: ...

    @app.agent
    async def hasty() -> str:
        task = asyncio.create_task(send_mail("ada"))
        return f"done: {task.done()}"

    async with app.running():
        assert await hasty() == "done: False"
    (line,) = warnings_of(caplog)
    assert "send_mail was not done" in line


async def test_what_is_awaited_cancelled_or_fails_with_its_agent_is_not_named(
    app: hf.App, caplog: pytest.LogCaptureFixture
) -> None:
    async def forever() -> None:
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.get_running_loop().create_future()
        await asyncio.sleep(0)

    @app.agent
    async def careful() -> str:
        task = asyncio.create_task(forever())
        async with asyncio.TaskGroup() as group:
            group.create_task(asyncio.sleep(0.01))
        task.cancel()
        return "done"

    async with app.running():
        assert await careful() == "done"
    assert not warnings_of(caplog)
