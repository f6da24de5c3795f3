"""`hf.emit` in a tool, `job.stream` outside: in one process, and over one that is killed."""

from __future__ import annotations

import asyncio
import sys
import textwrap
from collections.abc import Sequence
from contextlib import aclosing
from pathlib import Path
from typing import Any

import pytest

import holdfast as hf
from holdfast.engine.streams import watch
from holdfast.errors import InvalidMove, InvalidName, JobHeld, TooLarge
from holdfast.model.limits import CHUNK_BYTES_MAX
from holdfast.model.streams import AttemptSuperseded, Chunk
from holdfast.runtime.store_opener import open_store

pytestmark = pytest.mark.store("sqlite")

PATIENCE_S = 60.0


@pytest.fixture
def app(tmp_path: Path) -> hf.App:
    return hf.App(store=f"sqlite:///{tmp_path / 'test.db'}")


def words(heard: Sequence[Chunk | AttemptSuperseded]) -> list[Any]:
    return [one.said if isinstance(one, Chunk) else ("again", one.attempt) for one in heard]


async def test_a_tool_speaks_and_whoever_holds_the_job_hears(app: hf.App) -> None:
    """From a coroutine, a task it started, and a thread; text, JSON and a type of one's own."""

    @app.tool(effect="read_only")
    async def think() -> str:
        async def aside() -> None:
            await hf.emit("from a task", stream="notes")

        for token in ("to", "be"):
            await hf.emit(token)
        await asyncio.create_task(aside())
        hf.emit({"percent": 50})
        return "thought"

    @app.step(effect="read_only")
    def look() -> int:
        hf.emit("from a thread")
        return 1

    @app.agent
    async def poet() -> str:
        await look()
        return await think()

    async with app.running():
        job = await poet.start()
        heard = [one async for one in job.stream()]
        assert words(heard) == ["from a thread", "to", "be", "from a task", {"percent": 50}]
        middle = heard[2].cursor
        assert [one async for one in job.stream(after=middle)] == heard[3:]
        assert words([one async for one in job.stream(stream="notes")]) == ["from a task"]
        assert await job.result() == "thought"


async def test_a_tool_called_as_a_plain_function_speaks_to_nobody(app: hf.App) -> None:
    @app.tool(effect="read_only")
    async def think() -> str:
        await hf.emit("hello")
        return "thought"

    assert await think() == "thought"


@pytest.mark.parametrize(
    "said, stream, error",
    [("x", "", InvalidName), ("x" * (CHUNK_BYTES_MAX + 1), "out", TooLarge)],
)
async def test_what_cannot_be_said_is_an_error(
    app: hf.App, said: str, stream: str, error: type[Exception]
) -> None:
    seen: list[Exception] = []

    @app.tool(effect="read_only")
    async def think() -> None:
        try:
            await hf.emit(said, stream=stream)
        except Exception as problem:
            seen.append(problem)

    @app.agent
    async def poet() -> None:
        await think()

    async with app.running():
        await poet()
    assert [type(problem) for problem in seen] == [error]


async def test_an_agents_own_code_does_not_speak(app: hf.App) -> None:
    """It runs again whenever the job is resumed, and would say everything again."""

    @app.agent
    async def poet() -> None:
        with pytest.raises(InvalidMove, match=r"hf\.emit was called outside a tool or step"):
            hf.emit("hello")

    async with app.running():
        await poet()


async def test_a_failed_attempt_is_taken_back(app: hf.App) -> None:
    """A tool fails after it has spoken, and is tried again: what it said first is taken back, and the last stays."""

    @app.tool(effect="read_only")
    async def think() -> None:
        await hf.emit("half a tho")
        raise ValueError

    @app.agent
    async def poet() -> None:
        await think()

    async with app.running() as process:
        job = await poet.start()
        with pytest.raises(JobHeld):
            await job.result()
        async with aclosing(watch(process.store, job.id)) as reader:
            heard = [await anext(reader) for _ in range(5)]
        assert words(heard) == ["half a tho", ("again", 2), "half a tho", ("again", 3), "half a tho"]


APP = textwrap.dedent(
    """
    import asyncio, os, sys
    import holdfast as hf

    app = hf.App(store=sys.argv[1])

    @app.tool(effect="read_only")
    async def think() -> str:
        who = sys.argv[2]
        for n in range(1000):
            await hf.emit(f"{who} {n}")
            if who == "first" and n == 200:
                await asyncio.get_running_loop().create_future()
        return who

    @app.agent
    async def poet() -> str:
        return await think()

    async def main() -> None:
        async with app.running():
            job = await poet.start(id="poem")
            await job.result()

    asyncio.run(main())
    """
)


async def test_a_worker_killed_in_mid_sentence_is_taken_back(tmp_path: Path) -> None:
    """kill -9 while it speaks; another process takes over, and a third one watches both."""
    address = f"sqlite:///{tmp_path / 'test.db'}"
    script = tmp_path / "app.py"
    script.write_text(APP)
    store = await open_store(address)
    try:
        async with asyncio.timeout(PATIENCE_S):
            first = await asyncio.create_subprocess_exec(sys.executable, str(script), address, "first")
            while not await store.streams.read("poem"):
                await store.wakeups.wait(frozenset({"stream:poem"}), 0.1)
            reader = watch(store, "poem")
            heard = [await anext(reader) for _ in range(201)]
            first.kill()
            await first.wait()
            second = await asyncio.create_subprocess_exec(sys.executable, str(script), address, "second")
            heard += [one async for one in reader]
            assert await second.wait() == 0
        assert words(heard) == [
            *(f"first {n}" for n in range(201)),
            ("again", 2),
            *(f"second {n}" for n in range(1000)),
        ]
        again = [one async for one in watch(store, "poem", after=heard[100].cursor)]
        assert again == heard[101:]
    finally:
        await store.close()
