"""Goal: work is lost and done twice by nobody, wherever its agents live and whatever is killed. Method: an API, two
workers and three external agents as processes; work for either kind of agent, for one and for the other, submitted
while an agent is killed with -9 at any moment, now and then a worker, now and then the API; some of it kills whoever
begins it. Whoever died is started again. In the end the journals say for each item who completed it, once, or why it is
held."""

from __future__ import annotations

import asyncio
import random
import subprocess
import threading
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from holdfast.client import RemoteClient
from holdfast.client.work_views import work_view
from holdfast.engine.external_work import ExternalWork, WorkItemState
from holdfast.engine.verify.verify import verify
from holdfast.errors import Unauthorized, Unavailable
from holdfast.model.events import JobClaimed, JobCompleted, JobDeadLettered
from holdfast.model.states import Status, WaitReason
from holdfast.model.work import agent_in
from holdfast.runtime import open_store
from holdfast.store.clock import SystemClock
from holdfast.store.tables.store import SqlStore
from tests.kill.crew import all_jobs
from tests.kill.test_load import asked
from tests.support.deployment.receivers import Outside
from tests.support.deployment.stage import Stage
from tests.support.project import ROOT

HANDS = ("first", "second", "third")
CAPABILITIES = ("far", "either", "near")
"""Only for agents that live elsewhere; for them and for workers; only for workers."""

SECONDS = (0.2, 1.6)
"""How long an item takes."""

DEADLY_EVERY = 39
"""Every so many-th item kills its agent; all of them are for agents that live elsewhere."""

PACE_S = 0.3


class Elsewhere(Stage):
    """A deployment with agents that are no part of it."""

    app = ROOT / "tests/support/deployment/shared_work.py"

    def __init__(self, folder: Path, store: str) -> None:
        super().__init__(folder, store, Outside())
        self.begun = folder / "begun.log"
        self.begun.touch()
        self.hands: dict[str, subprocess.Popen[str]] = {}
        self.killed: Counter[str] = Counter()

    def hand(self, handle: str) -> None:
        """The agent is there, again if it was before: the same folder and handle are the same agent."""
        script = str(ROOT / "tests/support/deployment/external_agent.py")
        arguments = (script, self.url, handle, str(self.begun))
        self.hands[handle], _ = self._run(*arguments, named=handle, said="serves")

    def strike(self, chance: random.Random) -> None:
        """Somebody is killed, and comes back."""
        what = chance.choices(["hand", "worker", "api"], [14, 3, 3])[0]
        self.killed[what] += 1
        match what:
            case "hand":
                handle = chance.choice(HANDS)
                self.kill(self.hands[handle])
                self.hand(handle)
            case "worker":
                worker = self.workers.pop(chance.randrange(len(self.workers)))
                self.kill(worker)
                self.work(concurrency=2)
            case _:
                self.kill(self.api)
                self.serve()

    def revive(self) -> None:
        """Agents that died of their work are back."""
        for handle, hand in list(self.hands.items()):
            if hand.poll() is not None:
                self.killed["by work"] += 1
                self.hand(handle)

    def close(self) -> None:
        for hand in self.hands.values():
            hand.kill()
            hand.wait(60)
        super().close()


@pytest.mark.store("sqlite")
@pytest.mark.timeout(150)
def test_work_outlives_agents_workers_and_api(tmp_path: Path) -> None:
    lost = storm(Elsewhere(tmp_path, f"sqlite:///{tmp_path / 'holdfast.db'}"), items=40, seed=18)
    assert lost >= 40 // 16, "the storm met agents at work"


@pytest.mark.chaos
@pytest.mark.timeout(900)
@pytest.mark.parametrize("seed", [1, 2])
@pytest.mark.parametrize("lane", ["sqlite", "postgres"])
def test_two_hundred_items_outlive_agents_workers_and_api(
    lane: str, seed: int, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    where = f"sqlite:///{tmp_path / 'holdfast.db'}"
    if lane == "postgres":
        where = request.getfixturevalue("durable_postgres_database")
    lost = storm(Elsewhere(tmp_path, where), items=200, seed=seed)
    assert lost >= 200 // 16, "the storm met agents at work"


def storm(stage: Elsewhere, *, items: int, seed: int) -> int:
    """Every item is over once, or held with its causes; how many times a holder was lost."""
    chance = random.Random(seed)
    kills = items // 4
    try:
        stage.serve()
        for handle in HANDS:
            stage.hand(handle)
        for _ in range(2):
            stage.work(concurrency=2)
        ids: dict[str, str] = {}
        sending = threading.Thread(
            target=lambda: ids.update(asyncio.run(send_all(stage, items))), daemon=True
        )
        sending.start()
        pause, struck = threading.Event(), 0
        while sending.is_alive() or not over(stage, items):
            pause.wait(PACE_S * chance.random())  # the pace of the storm
            stage.revive()
            if struck < kills:
                stage.strike(chance)
                struck += 1
        agents = stage.ask("GET", "/api/agents")["agents"]
    finally:
        stage.close()
    assert len(set(ids.values())) == items, "each task is one item, however often it was sent"
    external = [one["handle"] for one in agents if one["agentType"] != "hosted"]
    assert sorted(external) == sorted(HANDS), "whoever came back is who it was"
    guids = {one["guid"]: one["handle"] for one in agents}
    told = asyncio.run(judged(stage, ids, guids))
    print(f"{items} items, seed {seed}; killed {dict(stage.killed)}; {dict(told)}")
    return told["lost holders"]


async def send_all(stage: Elsewhere, items: int) -> dict[str, str]:
    """Every task has been taken on, a few at a time; what was not answered was sent again."""
    chance = random.Random(items)
    ids: dict[str, str] = {}
    async with RemoteClient(stage.url) as client:
        for nth in range(items):
            task = str(nth)
            given = {"seconds": chance.uniform(*SECONDS), "deadly": is_deadly(task)}
            while task not in ids:
                try:
                    view = await client.submit_work(
                        task, CAPABILITIES[nth % 3], task_id=task, context_data=given
                    )
                except (Unavailable, Unauthorized):
                    continue  # it is being started again
                ids[task] = view.id
    return ids


def is_deadly(task: str) -> bool:
    return int(task) % DEADLY_EVERY == 0


def over(stage: Elsewhere, items: int) -> bool:
    told = asked(stage, "GET", "/api/stats")
    if told is None:
        return False
    return bool(told["totals"]["completedWork"] + told["totals"]["deadWork"] == items)


# ── the judge ─────────────────────────────────────────────────────────────────────────────────────


async def judged(stage: Elsewhere, ids: dict[str, str], guids: dict[str, str]) -> Counter[str]:
    """What the store and the agents' own log say, after everybody is gone."""
    begun = [line.split() for line in stage.begun.read_text().splitlines()]
    once = Counter((work_id, int(fence)) for work_id, fence, _ in begun)
    assert set(once.values()) == {1}, "no grant was worked on twice"
    told: Counter[str] = Counter()
    store = await open_store(stage.store)
    try:
        assert {job.job_id for job in await all_jobs(store)} == set(ids.values()), (
            "nothing else, nothing less"
        )
        outwork = ExternalWork(store, SystemClock(), random.random)
        for task, job_id in ids.items():
            item = await outwork.load(job_id)
            judge(task, item, guids, once)
            told[_sort(item)] += 1
            told["lost holders"] += sum(getattr(event, "takeover", False) for _, event in item.facts)
        assert isinstance(store, SqlStore)
        report = await verify(store)
        assert report.clean, report
    finally:
        await store.close()
    return told


def judge(task: str, item: WorkItemState, guids: dict[str, str], once: Counter[tuple[str, int]]) -> None:
    """One item: completed once, by the holder of the newest fence; or held, with every cause."""
    job_id, head = item.head.job_id, item.head
    claims = {sealed.fence: event for sealed, event in item.facts if isinstance(event, JobClaimed)}
    assert sorted(claims) == list(claims), "every grant has a fence above the last"
    completions = [
        (sealed.fence, event.output) for sealed, event in item.facts if isinstance(event, JobCompleted)
    ]
    if head.status is Status.WAITING:
        assert head.wait_reason is WaitReason.DEAD_LETTER, head
        assert not completions
        assert isinstance(item.last[1], JobDeadLettered)
        causes = work_view(item).error["causes"]
        holders = [cause["holder"] for cause in causes if cause.get("holder")]
        assert len(holders) >= 3, "whoever was lost with it is told"
        assert set(holders) <= {claim.worker for claim in claims.values()}
        return
    assert head.status is Status.COMPLETED, head
    assert not is_deadly(task)
    ((fence, output),) = completions
    assert fence == max(claims) == head.fence, "whoever completed it held it last"
    holder = agent_in(claims[fence].worker)
    assert _plain(output)["task"] == task
    if holder is None:
        assert output == {"task": task, "by": "worker"}, output
    else:
        assert output == {"task": task, "by": guids[holder], "fence": fence}, output
        assert once[job_id, fence] == 1, "it did what it says it did"


def _sort(item: WorkItemState) -> str:
    """How it ended, and with whom."""
    if item.head.status is not Status.COMPLETED:
        return "dead letters"
    (last,) = [event.output for _, event in item.facts if isinstance(event, JobCompleted)]
    return "done by workers" if _plain(last)["by"] == "worker" else "done by agents"


def _plain(told: Any) -> dict[str, Any]:
    assert isinstance(told, dict), told
    return told
