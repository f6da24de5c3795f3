"""Work and our own workers: code with a capability takes it, and an agent asks others for it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import holdfast as hf
from holdfast.client.in_process import EmbeddedClient
from holdfast.errors import CallFailed, InvalidSetting
from holdfast.model.ids import RandomIds
from holdfast.model.work import WorkStatus
from holdfast.store.clock import SystemClock

pytestmark = pytest.mark.store("sqlite")


def application(folder: Path) -> hf.App:
    app = hf.App(f"sqlite:///{folder / 'store.db'}")

    @app.step(effect="read_only")
    async def count(text: str) -> int:
        return len(text.split())

    @app.agent(capability="count", boundaries=["acme"])
    async def counter(work: hf.Work) -> dict[str, Any]:
        return {"words": await count(work.context_data["text"]), "asked": work.description}

    @app.agent
    async def boss(text: str) -> Any:
        return await hf.delegate("count them", capability="count", context_data={"text": text})

    @app.agent
    async def helpless() -> str:
        try:
            return str(await hf.delegate("fly", capability="fly", required_agent_type="bird"))
        except CallFailed as failed:
            return f"no: {failed}"

    return app


async def over(client: EmbeddedClient, work_id: str) -> Any:
    await client.result(work_id, timeout_s=60)
    return await client.get_work(work_id)


async def test_a_worker_takes_work_for_which_it_has_code(tmp_path: Path) -> None:
    """Also inside its boundary, for its type, and what prefers others that never come."""
    app = application(tmp_path)
    async with app.running() as process:
        client = EmbeddedClient(process.store, SystemClock(), RandomIds())
        asked: list[dict[str, Any]] = [
            {},
            {"boundary": "acme"},
            {"required_agent_type": "hosted"},
            {"preferred_agent_type": "hosted"},
        ]
        ids = [
            (await client.submit_work("how many", "count", context_data={"text": "a b c"}, **more)).id
            for more in asked
        ]
        for work_id in ids:
            view = await over(client, work_id)
            assert (view.status, view.result) == (WorkStatus.COMPLETED, {"words": 3, "asked": "how many"})
            assert view.assigned_to == process.name
        foreign = await client.submit_work("x", "count", boundary="other", context_data={"text": ""})
        yielding = await client.submit_work(
            "x", "count", preferred_agent_type="robot", context_data={"text": "a"}
        )
        assert (await over(client, yielding.id)).result["words"] == 1
        assert (await client.get_work(foreign.id)).status is WorkStatus.PENDING


async def test_an_agent_delegates_and_waits(tmp_path: Path) -> None:
    app = application(tmp_path)
    async with app.running():
        assert await app.agents["boss"]("one two") == {"words": 2, "asked": "count them"}


async def test_delegated_work_is_done_elsewhere(tmp_path: Path) -> None:
    """Goal: a job waits for an agent that is no worker of ours. Method: the agent claims the child, fails it for good;
    the parent hears why, and goes on."""
    app = application(tmp_path)
    async with app.running() as process:
        client = EmbeddedClient(process.store, SystemClock(), RandomIds())
        await client.register_agent("wren", "bird", guid="wren-1", capabilities=["fly"])
        job = await app.agents["helpless"].start()
        (item,) = await client.claim_work("wren-1", wait_seconds=30)
        await client.fail_work(
            item.id,
            fence=item.fence,
            lease_token=item.lease_token,
            message="it rains",
            recoverable=False,
        )
        assert "it rains" in await job.result()


async def test_a_cancelled_parent_cancels_what_it_asked_for(tmp_path: Path) -> None:
    app = application(tmp_path)
    async with app.running() as process:
        client = EmbeddedClient(process.store, SystemClock(), RandomIds())
        job = await app.agents["helpless"].start()
        while not (await client.list_work()).items:
            await process.store.wakeups.wait(frozenset({"queue:work"}), 1.0)
        (view,) = (await client.list_work()).items
        await job.cancel("enough")
        with pytest.raises(hf.HoldfastError):
            await job.result()
        assert (await over(client, view.id)).status is WorkStatus.CANCELLED


@pytest.mark.parametrize("wrong", [{"capability": "a@b"}, {"capability": "count"}])
def test_declarations_that_cannot_be(tmp_path: Path, wrong: dict[str, str]) -> None:
    app = application(tmp_path)
    with pytest.raises(hf.HoldfastError):

        @app.agent(**wrong)  # type: ignore[call-overload, untyped-decorator]
        async def other(work: hf.Work) -> None: ...

    with pytest.raises(InvalidSetting, match="must have one parameter; it has 2"):

        @app.agent(capability="two")
        async def two(work: hf.Work, more: int) -> None: ...

    assert "other" not in app.agents
