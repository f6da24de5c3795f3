"""A job stays with the Python it began on."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

import holdfast as hf
from holdfast.engine.execution import Execution
from holdfast.engine.runner_config import RunnerConfig
from holdfast.model.events import JobParked
from holdfast.model.jobs import JobDraft
from holdfast.model.python_pin import HERE
from holdfast.model.states import MailKind, Status, WaitReason
from holdfast.testing.conformance.harness import Backend
from tests.engine.shop import Shop, opened
from tests.support.fixtures.stores import STORES

pytestmark = pytest.mark.parametrize("backend", STORES, indirect=True)


def desk_on(shop: Shop, python: str) -> RunnerConfig:
    return msgspec.structs.replace(shop.desk(), python=python)


async def greet(_drive: Execution, given: Any) -> str:
    return f"hello {given}"


async def submitted(shop: Shop, python: str | None) -> str:
    shop.programs["greet"] = greet
    draft = JobDraft(kind="greet", input="ada", python_version=python)
    return (await shop.store.jobs.submit(draft)).job_id


async def test_another_python_does_not_drive_it(backend: Backend) -> None:
    """It is parked with a report, nothing is counted against it, and nobody takes it again by itself."""
    async with opened(backend) as shop:
        job_id = await submitted(shop, "3.11")
        run = await shop.claim(desk=desk_on(shop, "3.12"))
        assert await run.go() == "waiting"
        head = await shop.store.jobs.head(job_id)
        assert (head.status, head.wait_reason) == (Status.WAITING, WaitReason.DRIFT)
        assert (head.attempts, head.takeovers, head.wake_at) == (0, 0, None)
        last = (await shop.events(job_id))[-1]
        assert isinstance(last, JobParked)
        assert last.report["needs_python"] == "3.11"
        assert await shop.claim_all(desk=desk_on(shop, "3.12")) == [], "no hot loop"


async def test_resumed_on_its_own_python_it_goes_on(backend: Backend) -> None:
    async with opened(backend) as shop:
        job_id = await submitted(shop, "3.11")
        await (await shop.claim(desk=desk_on(shop, "3.12"))).go()
        await shop.tell(job_id, MailKind.RESUME, {"choice": "continue"})
        await (await shop.claim(desk=desk_on(shop, "3.11"))).go()
        assert await (await shop.claim(desk=desk_on(shop, "3.11"))).go() == "completed"


async def test_a_person_may_accept_another_python(backend: Backend) -> None:
    """Only the one that the report names: a third one parks the job again."""
    async with opened(backend) as shop:
        job_id = await submitted(shop, "3.11")
        await (await shop.claim(desk=desk_on(shop, "3.12"))).go()
        await shop.tell(job_id, MailKind.RESUME, {"choice": "accept", "why": "nothing has begun"})
        await (await shop.claim(desk=desk_on(shop, "3.12"))).go()
        assert await (await shop.claim(desk=desk_on(shop, "3.13"))).go() == "waiting"
        await shop.tell(job_id, MailKind.RESUME, {"choice": "continue"})
        await (await shop.claim(desk=desk_on(shop, "3.12"))).go()
        assert await (await shop.claim(desk=desk_on(shop, "3.12"))).go() == "completed"


async def test_a_job_without_a_version_runs_anywhere(backend: Backend) -> None:
    async with opened(backend) as shop:
        await submitted(shop, None)
        assert await (await shop.claim(desk=desk_on(shop, "3.99"))).go() == "completed"


async def test_an_agent_names_its_python(backend: Backend) -> None:
    async with opened(backend) as shop:
        agent = hf.App(store="memory:").agent(_nothing)
        draft = agent.draft({})
        assert (draft.python_version, draft.code_version) == (HERE, None)
        job_id = (await shop.store.jobs.submit(draft)).job_id
        assert (await shop.events(job_id))[0].python_version == HERE  # type: ignore[attr-defined]


async def _nothing() -> None: ...
