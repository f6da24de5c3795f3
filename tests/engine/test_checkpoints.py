"""Commits of state: a resumed job starts from the last one, and only if its evidence still holds."""

from __future__ import annotations

import asyncio
import contextlib
from typing import Any

import msgspec
import pytest

from holdfast.engine import group_commit
from holdfast.engine.checkpoints import checkpoint, restore_state
from holdfast.engine.durable_call import DurableCall
from holdfast.engine.execution import Execution
from holdfast.engine.suspension import sleep
from holdfast.errors import InvalidMove, Unproven
from holdfast.model.events import CheckpointSaved, JobParked
from holdfast.model.evidence import ArtifactExists, EvidenceSet, Result
from holdfast.model.states import Status, WaitReason
from holdfast.model.time import HOUR
from holdfast.testing.conformance.harness import Backend
from tests.engine.shop import Shop, opened
from tests.support.fixtures.stores import STORES

pytestmark = pytest.mark.parametrize("backend", STORES, indirect=True)


async def test_a_resumed_job_starts_from_its_last_checkpoint(backend: Backend) -> None:
    """Goal: what was before a checkpoint is neither done nor replayed again. Method: a loop over pages that sleeps
    after each checkpoint; every claim must do one page, under keys of its own ordinal."""
    async with opened(backend) as shop:
        asked: list[int] = []

        async def pages(drive: Execution, _: Any) -> Any:
            state = restore_state(drive, {"page": 0, "found": []})
            asked.append(state["page"])
            while state["page"] < 3:
                found = await shop.look(drive, f"page-{state['page']}")
                state = {"page": state["page"] + 1, "found": [*state["found"], found]}
                await checkpoint(drive, state)
                await sleep(drive, HOUR)
            return state["found"]

        job_id = await shop.submit(pages)
        for _ in range(4):
            await shop.drive_all()
            backend.clock.advance(HOUR)
        job = await shop.job(job_id)
        assert (job.status, job.output) == (Status.COMPLETED, ["PAGE-0", "PAGE-1", "PAGE-2"])
        assert shop.done == {"page-0": 1, "page-1": 1, "page-2": 1}
        assert asked == [0, 1, 2, 3]
        saved = [event.ordinal for event in await shop.events(job_id) if isinstance(event, CheckpointSaved)]
        assert saved == [1, 2, 3]


async def test_code_that_gives_a_checkpoint_up_goes_on_behind_it(
    backend: Backend, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Goal: nothing that follows a commit is done twice. Method: the code stops waiting for the disk while the commit
    is on its way there, and does something; the resumed run finds it."""
    monkeypatch.setattr(group_commit, "AT_ONCE_MAX", 0)  # it is on its way for a while
    async with opened(backend) as shop:

        async def impatient(drive: Execution, _: Any) -> Any:
            if restore_state(drive) is None:
                asyncio.get_running_loop().call_soon(asyncio.current_task().cancel)  # type: ignore[union-attr]
                with contextlib.suppress(asyncio.CancelledError):
                    await checkpoint(drive, {"page": 1})
            found = await shop.look(drive, "page")
            await sleep(drive, HOUR)
            return found

        job_id = await shop.submit(impatient)
        assert await shop.drive_all() == ["waiting"]
        backend.clock.advance(HOUR)
        assert await shop.drive_all() == ["completed"]
        assert ((await shop.job(job_id)).output, shop.done) == ("PAGE", {"page": 1})


async def test_a_checkpoint_hides_no_effect_that_was_renamed(backend: Backend) -> None:
    """Goal: what a checkpoint forgets was asked for. Method: a mail is renamed behind the journal's back, and the code
    reaches a checkpoint first: it parks instead of forgetting the mail, which the next run would send again."""
    async with opened(backend) as shop:
        sent: list[str] = []

        async def mail(_key: str) -> Any:
            sent.append("mail")

        async def first(drive: Execution, _: Any) -> Any:
            await drive.call(DurableCall("send_mail", [], mail))
            await sleep(drive, HOUR)

        async def changed(drive: Execution, _: Any) -> Any:
            await checkpoint(drive, {"step": 1})
            await drive.call(DurableCall("post_mail", [], mail))

        job_id = await shop.submit(first)
        assert await shop.drive_all() == ["waiting"]
        shop.programs["first"] = changed
        backend.clock.advance(HOUR)
        assert await shop.drive_all() == ["waiting"]
        assert sent == ["mail"]
        assert (await shop.store.jobs.head(job_id)).wait_reason is WaitReason.DRIFT


@pytest.mark.parametrize("where", ["scope", "beside"])
async def test_a_checkpoint_where_nobody_could_resume_is_refused(backend: Backend, where: str) -> None:
    async with opened(backend) as shop:

        async def wrong(drive: Execution, _: Any) -> Any:
            other = asyncio.ensure_future(sleep(drive, HOUR)) if where == "beside" else None
            with drive.scope("research"):
                try:
                    await checkpoint(drive, {})
                except InvalidMove as error:
                    return error.hint
                finally:
                    if other is not None:
                        other.cancel()

        job_id = await shop.submit(wrong)
        assert await shop.drive_all() == ["completed"]
        assert "agent's own function" in (await shop.job(job_id)).output


async def test_a_checkpoint_right_after_a_task_has_ended(backend: Backend) -> None:
    """Goal: a task that was awaited is no obstacle. Method: it ends in the same turn of the loop in which it wakes the
    code that awaits it, which makes its checkpoint before that turn is over."""
    async with opened(backend) as shop:

        async def program(drive: Execution, _: Any) -> Any:
            promise = asyncio.get_running_loop().create_future()

            async def keep_promise() -> None:
                promise.set_result(await shop.look(drive, "page"))

            task = asyncio.create_task(keep_promise())
            found = await promise
            await task
            return found, await checkpoint(drive, {})

        job_id = await shop.submit(program)
        assert await shop.drive_all() == ["completed"]
        assert (await shop.job(job_id)).output == ["PAGE", 1]


class World:
    """Which paths exist."""

    def __init__(self) -> None:
        self.paths = {"report.pdf"}

    async def inspect(self, pack: EvidenceSet) -> list[Result]:
        assert all(isinstance(one, ArtifactExists) for one in pack.evidence)
        return [
            Result("verified")
            if getattr(one, "path", None) in self.paths
            else Result("failed", "it is not there")
            for one in pack.evidence
        ]


async def looked_after(shop: Shop, world: World) -> list[str]:
    ends: list[str] = []
    desk = msgspec.structs.replace(shop.desk(), inspect=world.inspect)
    while runs := await shop.claim_all(desk=desk):
        ends += [await run.go() for run in runs]
    return ends


async def test_evidence_must_hold_when_the_checkpoint_is_made(backend: Backend) -> None:
    async with opened(backend) as shop:

        async def writer(drive: Execution, path: Any) -> Any:
            try:
                await checkpoint(drive, "written", EvidenceSet((ArtifactExists(path),)))
            except Unproven as error:
                return str(error)
            return "proven"

        good, bad = await shop.submit(writer, "report.pdf"), await shop.submit(writer, "other.pdf")
        assert await looked_after(shop, World()) == ["completed", "completed"]
        assert (await shop.job(good)).output == "proven"
        assert "it is not there" in (await shop.job(bad)).output
        assert not [event for event in await shop.events(bad) if isinstance(event, CheckpointSaved)]


@pytest.mark.parametrize("still_there", [True, False])
async def test_evidence_must_hold_again_when_the_job_is_resumed(backend: Backend, still_there: bool) -> None:
    async with opened(backend) as shop:
        world = World()

        async def writer(drive: Execution, _: Any) -> Any:
            if restore_state(drive) is None:
                await checkpoint(drive, "written", EvidenceSet((ArtifactExists("report.pdf"),)))
            await sleep(drive, HOUR)
            return restore_state(drive)

        job_id = await shop.submit(writer)
        assert await looked_after(shop, world) == ["waiting"]
        backend.clock.advance(HOUR)
        if still_there:
            assert await looked_after(shop, world) == ["completed"]
            assert (await shop.job(job_id)).output == "written"
            return
        world.paths.clear()
        assert await looked_after(shop, world) == ["waiting"]
        (parked,) = [event for event in await shop.events(job_id) if isinstance(event, JobParked)]
        assert parked.report["why"] == (
            "the evidence of checkpoint 1 no longer holds: failed: it is not there"
        )
