"""kill -9 in the middle of an answer, of parallel tools, of a sub-agent, of a summary: nothing is done or bought twice.

Real processes, a real server for the model; what was done is told by the receivers' own logs."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from llmock.scenarios import Match, Reply, StreamFault
from llmock.testing import LLMockServer

from holdfast.engine.streams import watch
from holdfast.engine.verify.verify import verify
from holdfast.model.events import ChildStarted, JobCompleted, LlmRequested, LlmResponded, ToolReturned
from holdfast.model.hash_chain import unseal
from holdfast.model.jobs import JobFilter
from holdfast.model.streams import AttemptSuperseded, Chunk
from holdfast.runtime.store_opener import open_store
from holdfast.store.contract import Store
from holdfast.store.tables.store import SqlStore

pytestmark = [pytest.mark.store("sqlite"), pytest.mark.timeout(100)]

PROGRAM = Path(__file__).with_name("killed_app.py")
PATIENCE_S = 60.0


@pytest.fixture(scope="module")
def models() -> Iterator[LLMockServer]:
    with LLMockServer() as server:
        yield server


class Stage:
    def __init__(self, what: str, folder: Path, store: Store, models: LLMockServer) -> None:
        self.what = what
        self.folder = folder
        self.store = store
        self._models = models

    async def start(self) -> asyncio.subprocess.Process:
        address = f"sqlite:///{self.folder / 'test.db'}"
        where = self._models.base_url("anthropic")
        command = (str(PROGRAM), address, self.what, str(self.folder), where)
        return await asyncio.create_subprocess_exec(sys.executable, *command)

    async def go_on(self) -> None:
        """A second process finishes what the first could not."""
        (self.folder / "go-on").touch()
        process = await self.start()
        assert await process.wait() == 0

    async def until(self, seen: Callable[[list[Any]], bool], job_id: str) -> None:
        """The job's journal shows it."""
        while not seen(await self.facts(job_id)):
            await self.store.wakeups.wait(frozenset({f"job:{job_id}"}), 0.02)

    async def facts(self, job_id: str) -> list[Any]:
        return [unseal(sealed) for sealed in await self.store.journal.read(job_id)]

    def witness(self) -> list[str]:
        file = self.folder / "witness"
        return file.read_text(encoding="utf-8").splitlines() if file.exists() else []


@asynccontextmanager
async def staged(what: str, folder: Path, models: LLMockServer) -> AsyncIterator[Stage]:
    models.state.scenarios.clear()
    models.state.journal.clear()
    store = await open_store(f"sqlite:///{folder / 'test.db'}")
    try:
        async with asyncio.timeout(PATIENCE_S):
            yield Stage(what, folder, store, models)
            assert isinstance(store, SqlStore)
            report = await verify(store)
            assert report.clean, report.violations
    finally:
        await store.close()


def of(facts: list[Any], kind: type[Any]) -> list[Any]:
    return [fact for fact in facts if isinstance(fact, kind)]


async def test_in_the_middle_of_an_answer(tmp_path: Path, models: LLMockServer) -> None:
    """Whoever watches sees a reset and then the whole answer once; the answer before it is not bought again."""
    async with staged("reader", tmp_path, models) as stage:
        whole = "kelp holds on to the rock through every storm there is"
        models.state.scenarios.add(
            Reply("done already", times=None, match=Match(model="first")),
            Reply(whole, times=None, match=Match(model="second")),
            StreamFault("stall", after_chunks=5, stall_seconds=300, match=Match(model="second", stream=True)),
        )
        first = await stage.start()
        while not await stage.store.streams.read("reader"):
            await stage.store.wakeups.wait(frozenset({"stream:reader"}), 0.05)
        reading = watch(stage.store, "reader")
        heard = [await anext(reading)]
        first.kill()
        await first.wait()
        await stage.go_on()
        heard += [one async for one in reading]
        cut = next(nth for nth, one in enumerate(heard) if isinstance(one, AttemptSuperseded))
        before = "".join(one.said for one in heard[:cut] if isinstance(one, Chunk))
        after = "".join(one.said for one in heard[cut + 1 :] if isinstance(one, Chunk))
        assert whole.startswith(before)
        assert before != whole
        assert after == whole
        facts = await stage.facts("reader")
        assert of(facts, JobCompleted)[0].output == f"done already / {whole}"
        assert [(one.model, one.attempt) for one in of(facts, LlmRequested)] == [
            ("first", 1),
            ("second", 1),
            ("second", 2),
        ]
        paid = [record.model for record in models.state.journal.records() if record.status == 200]
        assert paid.count("first") == 1, "an answer that was heard is never bought again"


async def test_in_the_middle_of_parallel_tools(tmp_path: Path, models: LLMockServer) -> None:
    async with staged("worker", tmp_path, models) as stage:
        first = await stage.start()
        await stage.until(lambda facts: len(of(facts, ToolReturned)) == 2, "worker")
        while not any(line.startswith("pay") for line in stage.witness()):
            await stage.store.wakeups.wait(frozenset({"job:worker"}), 0.02)
        first.kill()
        await first.wait()
        await stage.go_on()
        facts = await stage.facts("worker")
        assert of(facts, JobCompleted)[0].output == "All done."
        witness = stage.witness()
        assert sorted(line for line in witness if line.startswith("mail")) == ["mail ada", "mail bob"]
        assert len({line for line in witness if line.startswith("pay")}) == 1, (
            "one key, however often it is sent"
        )
        assert [one.attempt for one in of(facts, LlmRequested)] == [1, 1]


async def test_in_the_middle_of_a_sub_agent(tmp_path: Path, models: LLMockServer) -> None:
    async with staged("parent", tmp_path, models) as stage:
        first = await stage.start()
        while "child waits" not in stage.witness():
            await stage.store.wakeups.wait(frozenset({"job:parent"}), 0.02)
        (child,) = (await stage.store.jobs.list(JobFilter(kind="child"))).items
        # A read does not wait for the receipt before it; without the receipt the unsafe step would be uncertain.
        await stage.until(lambda facts: bool(of(facts, ToolReturned)), child.job_id)
        first.kill()
        await first.wait()
        await stage.go_on()
        facts = await stage.facts("parent")
        assert of(facts, JobCompleted)[0].output == "parent heard: child done"
        assert len(of(facts, ChildStarted)) == 1
        assert len((await stage.store.jobs.list(JobFilter(kind="child"))).items) == 1
        assert stage.witness().count("child began") == 1


async def test_in_the_middle_of_a_summary(tmp_path: Path, models: LLMockServer) -> None:
    """The conversation goes on from one summary; the message is in it once."""
    async with staged("talker", tmp_path, models) as stage:
        first = await stage.start()
        while True:
            jobs = (await stage.store.jobs.list(JobFilter(kind="talker"))).items
            asked = [one for job in jobs for one in of(await stage.facts(job.job_id), LlmRequested)]
            if len(asked) == 2:
                break
            await stage.store.wakeups.wait(frozenset({"queue:default"}), 0.02)
        first.kill()
        await first.wait()
        await stage.go_on()
        view = await stage.store.sessions.load("ada")
        assert view is not None
        (frame,) = view.frames
        assert frame.reason == "compaction"
        assert len(view.graph.nodes) == 4
        assert view.revision == 2
        replies = [one for job in jobs for one in of(await stage.facts(job.job_id), LlmResponded)]
        assert len(replies) == 3, "the first answer, the summary, the second answer"
