"""`holdfast worker` is told to stop: a real process, a real signal, and another worker that goes on at once."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from holdfast.model.events import JobClaimed, JobCompleted
from holdfast.model.hash_chain import unseal
from holdfast.model.jobs import JobDraft
from holdfast.model.lease import LEASE_TTL_US
from holdfast.model.side_effects import CallStatus
from holdfast.model.states import Status
from holdfast.runtime import open_store
from holdfast.store.contract import Store

pytestmark = pytest.mark.store("sqlite")

APP = '''
import asyncio, os
import holdfast as hf

app = hf.App()


async def knock(name: str) -> str:
    """What whoever is behind the door answers."""
    reader, writer = await asyncio.open_unix_connection(os.environ["DOOR"])
    try:
        writer.write(f"{os.getpid()} {name}\\n".encode())
        return (await reader.readline()).decode().strip()
    finally:
        writer.close()


@app.tool(effect="read_only")
async def look(name: str) -> str:
    return await knock(name)


@app.tool
async def pay(name: str) -> str:
    return await knock(name)


@app.agent
async def reads() -> list[str]:
    return [await look("first"), await look("second")]


@app.agent
async def buys() -> list[str]:
    return [await pay("first"), await look("second")]
'''


class Door:
    """Where every call of every worker knocks, and waits until it is answered."""

    def __init__(self) -> None:
        self._knocks: asyncio.Queue[tuple[int, str, asyncio.StreamWriter]] = asyncio.Queue()
        self._open: list[asyncio.StreamWriter] = []

    async def knocked(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._open.append(writer)
        pid, _, name = (await reader.readline()).decode().strip().partition(" ")
        await self._knocks.put((int(pid), name, writer))

    async def next(self) -> tuple[int, str, asyncio.StreamWriter]:
        """Which process knocks, why, and where the answer goes."""
        return await self._knocks.get()

    @staticmethod
    async def answer(writer: asyncio.StreamWriter, word: str) -> None:
        writer.write(f"{word}\n".encode())
        await writer.drain()

    async def close(self) -> None:
        """Nobody stands at the door any more; who was never answered has gone away by itself."""
        for writer in self._open:
            writer.close()
            with contextlib.suppress(ConnectionError):
                await writer.wait_closed()


class Stage:
    def __init__(self, folder: Path, store: Store, door: Door) -> None:
        self._folder = folder
        self.store = store
        self.door = door

    @asynccontextmanager
    async def worker(self) -> AsyncIterator[asyncio.subprocess.Process]:
        """`holdfast worker`, at work."""
        arguments = [
            "-m",
            "holdfast.cli",
            "worker",
            "app.py",
            "--store",
            f"sqlite:///{self._folder}/store.db",
        ]
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            *arguments,
            cwd=self._folder,
            env={**os.environ, "DOOR": str(self._folder / "door")},
            stderr=asyncio.subprocess.PIPE,
        )
        try:
            assert "working on" in await self.heard(process)
            yield process
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()

    @staticmethod
    async def heard(process: asyncio.subprocess.Process) -> str:
        """The next line that it says."""
        assert process.stderr is not None
        return (await process.stderr.readline()).decode()

    async def told_to_stop(self, process: asyncio.subprocess.Process) -> None:
        process.send_signal(signal.SIGTERM)
        assert "stopping" in await self.heard(process)

    async def submit(self, kind: str) -> str:
        return (await self.store.jobs.submit(JobDraft(kind=kind, input={}))).job_id

    async def output(self, job_id: str) -> object:
        while (await self.store.jobs.head(job_id)).status is not Status.COMPLETED:
            await self.store.wakeups.wait(frozenset({f"job:{job_id}"}), 0.05)
        ended = unseal((await self.store.journal.read(job_id))[-1])
        assert isinstance(ended, JobCompleted)
        return ended.output

    async def was_given_back(self, job_id: str) -> None:
        """The job went from one worker to the next by release: no lease had to run out in between."""
        sealed = await self.store.journal.read(job_id)
        claims = [one for one in sealed if one.type == JobClaimed.type]
        released = next(one for one in sealed if one.type == "job_released")
        assert len(claims) == 2
        assert not any(event.takeover for event in map(unseal, claims) if isinstance(event, JobClaimed))
        assert claims[1].at - released.at < LEASE_TTL_US / 2


@pytest.fixture
async def stage(volatile_folder: Path) -> AsyncIterator[Stage]:
    (volatile_folder / "app.py").write_text(APP)
    store = await open_store(f"sqlite:///{volatile_folder}/store.db")
    door = Door()
    async with await asyncio.start_unix_server(door.knocked, volatile_folder / "door"):
        yield Stage(volatile_folder, store, door)
        await door.close()
    await store.close()


@pytest.mark.parametrize("kind", ["reads", "buys"])
async def test_a_running_call_finishes_and_the_next_worker_goes_on_behind_it(stage: Stage, kind: str) -> None:
    async with stage.worker() as one:
        job_id = await stage.submit(kind)
        pid, name, door = await stage.door.next()
        assert (pid, name) == (one.pid, "first")
        async with stage.worker() as two:
            await stage.told_to_stop(one)
            await stage.door.answer(door, "1st")
            assert await one.wait() == 0
            pid, name, door = await stage.door.next()
            assert (pid, name) == (two.pid, "second"), "what was answered is not asked again"
            await stage.door.answer(door, "2nd")
            assert await stage.output(job_id) == ["1st", "2nd"]
            await stage.told_to_stop(two)
            assert await two.wait() == 0
    await stage.was_given_back(job_id)


async def test_told_twice_it_gives_back_at_once(stage: Stage) -> None:
    """Nobody answers the first call: a read is asked again by the next worker, at once."""
    async with stage.worker() as one:
        job_id = await stage.submit("reads")
        await stage.door.next()
        async with stage.worker() as two:
            await stage.told_to_stop(one)
            await stage.told_to_stop(one)
            assert await one.wait() == 0
            for answer in ("first", "second"):
                pid, name, door = await stage.door.next()
                assert (pid, name) == (two.pid, answer)
                await stage.door.answer(door, answer)
            assert await stage.output(job_id) == ["first", "second"]
    await stage.was_given_back(job_id)


async def test_told_twice_in_an_unsafe_call_it_leaves_a_question(stage: Stage) -> None:
    """At once means at once: the payment was under way, so the next worker asks a person and does not pay again."""
    async with stage.worker() as one:
        job_id = await stage.submit("buys")
        await stage.door.next()
        await stage.told_to_stop(one)
        assert (await stage.store.jobs.head(job_id)).status is Status.RUNNING, "once, it is waited for"
        await stage.told_to_stop(one)
        assert await one.wait() == 0
    async with stage.worker():
        while not await stage.store.ledger.list(job_id, status=CallStatus.UNCERTAIN):
            await stage.store.wakeups.wait(frozenset({f"job:{job_id}"}), 0.05)
