"""A job that waits costs its worker nothing: when a run is over, nothing of it is left in the process.

Hundreds of runs end in several ways that leave a job waiting. What is alive afterwards is counted by type, not
weighed, so the figures are the same on every machine.
"""

from __future__ import annotations

import asyncio
import gc
import itertools
from collections import Counter
from typing import Any

import msgspec
import pytest

import holdfast as hf
from holdfast.engine.durable_call import DurableCall
from holdfast.engine.execution import Execution
from holdfast.engine.job_runner import JobRun
from holdfast.engine.journal_writer import JournalWriter
from holdfast.engine.replay_scheduler import ReplayScheduler
from holdfast.engine.runner_config import Program
from holdfast.engine.side_effects import SideEffectCall
from holdfast.engine.suspension import wait
from holdfast.engine.task_scopes import TaskScope
from holdfast.model.jobs import JobDraft
from holdfast.model.replay_history import History
from holdfast.model.retry import Backoff
from holdfast.model.states import Status
from holdfast.model.step_keys import StepScope
from holdfast.testing.conformance.harness import Backend
from holdfast.worker.worker import Worker
from tests.engine.shop import Shop, opened
from tests.support.fixtures.stores import STORES

pytestmark = pytest.mark.parametrize("backend", STORES, indirect=True)

JOBS_OF_EACH = 60
OF_RUNS = (
    asyncio.Task,
    JobRun,
    Execution,
    TaskScope,
    StepScope,
    JournalWriter,
    History,
    ReplayScheduler,
    SideEffectCall,
)
OWN_TASKS = 10
"""The worker's own, however many jobs there are."""

_tokens = itertools.count(1)
app = hf.App("memory:")


@app.tool(effect="read_only")
async def look(number: int) -> int:
    return number


@app.agent
async def sleeps(number: int) -> int:
    found = await asyncio.gather(look(number), look(number + 1))
    await hf.sleep("1h")
    return sum(found)


@app.agent
async def asks(number: int) -> bool:
    return await hf.ask(f"Is it {number}?")


@app.agent
async def listens_in_two_tasks(number: int) -> list[Any]:
    return list(await asyncio.gather(hf.wait("left"), hf.wait(f"right {number}", timeout="1h")))


@app.agent
async def fails(number: int) -> None:
    msg = f"not today, number {number}"
    raise ValueError(msg)


async def listens_under_a_timer(drive: Execution, _: Any) -> Any:
    async with asyncio.timeout(3600):
        return await wait(drive, "word")


async def cannot_tell(drive: Execution, _: Any) -> Any:
    """An unsafe call without an answer: the job waits for a person's word."""

    async def send(_key: str) -> None:
        msg = "no answer"
        raise TimeoutError(msg)

    return await drive.call(DurableCall("send", [], send))


PROGRAMS: dict[str, Program] = {
    **{name: agent.program for name, agent in app.agents.items()},
    "listens under a timer": listens_under_a_timer,
    "cannot tell": cannot_tell,
}


def alive() -> Counter[str]:
    """How much there is, that somebody can still reach, of what runs are made of."""
    gc.collect()
    return Counter(type(one).__name__ for one in gc.get_objects() if isinstance(one, OF_RUNS))


async def all_wait(shop: Shop) -> None:
    """Every job has been run, and waits."""
    drafts = [JobDraft(kind=kind, input={"number": n}) for kind in PROGRAMS for n in range(JOBS_OF_EACH)]
    await shop.store.jobs.submit_many(drafts)
    while (await shop.store.jobs.counts()).get(Status.WAITING, 0) < len(drafts):
        await shop.store.wakeups.wait(frozenset({"queue:default"}), 0.02)


async def test_a_worker_keeps_nothing_of_jobs_that_wait(backend: Backend) -> None:
    async with opened(backend) as shop:
        shop.programs.update(PROGRAMS)
        desk = msgspec.structs.replace(shop.desk(), retry=Backoff(attempts=1))
        worker = Worker(desk, "worker-1", lambda: f"claim-{next(_tokens)}")
        before = alive()
        working = asyncio.create_task(worker.work())
        await all_wait(shop)
        worker.drain()
        await working  # else the last of them may be on their way out
        left = alive() - before
        assert left.pop("Task", 0) <= OWN_TASKS
        assert not left, "runs that are over are kept"
