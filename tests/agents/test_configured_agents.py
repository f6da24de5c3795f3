"""Agents that are configured in the store, and schedules that an application declares."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest

import holdfast as hf
from holdfast.agents.configured_agents import check_hosted, session_with
from holdfast.agents.conversation import Session
from holdfast.engine.replay_check import replay
from holdfast.engine.verify.verify import verify
from holdfast.errors import InvalidPayload, InvalidSetting, JobHeld
from holdfast.model.configured_agents import Configuration, HostedAgent
from holdfast.model.events import StepFinished
from holdfast.model.hash_chain import unseal
from holdfast.model.schedule import CatchUp
from holdfast.runtime.process import Process
from holdfast.store.clock import SystemClock
from holdfast.store.interceptor import InterceptedStore
from holdfast.store.tables.store import SqlStore

pytestmark = pytest.mark.store("sqlite")

SCRIPT = """
[[reply]]
when = "order"
calls = [{ tool = "lookup", args = { order = "42" } }]

[[reply]]
after = "lookup"
text = "It is {result}."

[[reply]]
text = "Hello."
"""


@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=pytest.mark.store("postgres"))])
def app(request: pytest.FixtureRequest, tmp_path: Path) -> hf.App:
    app = hf.App(store=f"sqlite:///{tmp_path / 'test.db'}")
    if request.param == "postgres":
        app = hf.App(store=request.getfixturevalue("postgres_database"))

    @app.tool(effect="read_only")
    async def lookup(order: str) -> str:
        return f"order {order} at sea"

    return app


@pytest.fixture
def model(tmp_path: Path) -> str:
    (tmp_path / "script.toml").write_text(SCRIPT, encoding="utf-8")
    return f"scripted:{tmp_path / 'script.toml'}"


async def created(process: Process, name: str, **told: Any) -> HostedAgent:
    agent = HostedAgent(agent_id=f"agent_{name}", name=name, configuration=Configuration(**told))
    return await process.store.agents.create(agent)


def talking(process: Process, agent: HostedAgent, session_id: str) -> Session:
    async def host() -> Process:
        return process

    return session_with(agent, session_id, host)


async def test_a_configured_agent_uses_its_model_and_tools(app: hf.App, model: str) -> None:
    async with app.running() as process:
        helper = await created(process, "helper", model=model, tools=("lookup",), instructions="Be brief.")
        other = await created(process, "other", model=model)
        assert await talking(process, helper, "ada").send("hi") == "Hello."
        assert await talking(process, helper, "ada").send("my order?") == "It is order 42 at sea."
        assert await talking(process, other, "bob").send("hi") == "Hello."
        said = await talking(process, helper, "ada").messages()
        assert said[0] == {"role": "user", "content": "hi"}
        assert len(said) == 6
        assert isinstance(process.store, SqlStore)
        report = await verify(process.store)
        assert report.clean, report.violations


async def test_without_a_model_it_is_a_script_that_remembers(app: hf.App) -> None:
    async with app.running() as process:
        session = talking(process, await created(process, "nobody"), "ada")
        assert "Choose one with model=" in await session.send("hi")
        assert "the first time you said: hi" in await session.send("and now?")


async def test_a_turn_is_told_its_configuration_once_and_keeps_it(app: hf.App, model: str) -> None:
    """Goal: a replay is told what the first run was told. Method: the configuration is a fact of the turn's journal,
    and a replay of the turn does not ask the store for the agent again."""
    async with app.running() as process:
        helper = await created(process, "helper", model=model, tools=("lookup",))
        job = await talking(process, helper, "ada").post("my order?")
        assert await job.result() == "It is order 42 at sea."
        facts = [unseal(sealed) for sealed in await process.store.journal.read(job.id)]
        told = [one.result for one in facts if isinstance(one, StepFinished) and "agent" in one.step_key]
        configuration = {**msgspec.to_builtins(helper.configuration), "tools": ["lookup"]}
        assert told == [{"name": "helper", "configuration": configuration}]

        async def around(name: str, call: Any, args: Any, options: Any) -> Any:
            assert name != "agents.get", "it was told already"
            return await call(*args, **options)

        alone = InterceptedStore(process.store, around)
        program = app.programs()["assistant"]
        assert (await replay(alone, job.id, program, clock=SystemClock())).same


async def test_a_tool_that_is_not_there_fails_the_turn_and_says_so(app: hf.App) -> None:
    async with app.running() as process:
        agent = await created(process, "wrong", tools=("lookup", "teleport"))
        with pytest.raises(JobHeld, match="no tool called 'teleport'"):
            await talking(process, agent, "ada").send("hi")


def test_what_can_be_seen_at_once_is_refused_at_once(app: hf.App) -> None:
    def agent(**told: Any) -> HostedAgent:
        return HostedAgent(agent_id="agent_1", name="a", configuration=Configuration(**told))

    assert check_hosted(agent(tools=("lookup",)), app.callees).name == "a"
    assert check_hosted(agent(tools=("teleport",))).name == "a", "no application is known"
    with pytest.raises(InvalidSetting, match="teleport"):
        check_hosted(agent(tools=("teleport",)), app.callees)
    with pytest.raises(InvalidPayload, match="is not the name of a model"):
        check_hosted(agent(model="hal:9000"))


# ── schedules that an application declares ────────────────────────────────────────────────────────


async def test_a_declared_schedule_stands_while_the_application_runs(app: hf.App) -> None:
    @app.schedule("0 7 * * *", tz="Europe/Berlin", catch_up="one", given={"topic": "kelp"})
    @app.agent(queue="slow", priority=7, budget=hf.Budget(usd=2))
    async def report(topic: str, pages: int = 1) -> None: ...

    app.schedule("0 8 * * *", id="second", given={"topic": "sand"})(report)
    async with app.running() as process:
        one, two = await process.store.schedules.list()
    assert (one.schedule_id, one.kind, one.cron, one.time_zone) == (
        "report",
        "report",
        "0 7 * * *",
        "Europe/Berlin",
    )
    assert (one.catch_up, one.input) == (CatchUp.ONE, {"topic": "kelp", "pages": 1})
    assert (one.queue, one.priority, one.budget) == ("slow", 7, hf.Budget(usd=2))
    assert (two.schedule_id, two.kind, two.time_zone, two.catch_up) == (
        "second",
        "report",
        "UTC",
        CatchUp.SKIP,
    )
    assert SystemClock().wall_us() < one.next_at


def test_a_schedule_that_makes_no_sense_is_refused_where_it_is_declared(app: hf.App) -> None:
    @app.agent
    async def report(topic: str) -> None: ...

    declared = app.schedule("0 7 * * *", given={"topic": "kelp"})
    declared(report)
    with pytest.raises(InvalidSetting, match="two schedules called 'report'"):
        declared(report)
    for wrong in (
        app.schedule("at seven", id="a", given={"topic": "kelp"}),
        app.schedule("0 7 * * *", id="b", tz="Berlin", given={"topic": "kelp"}),
        app.schedule("0 7 * * *", id="c", catch_up="some", given={"topic": "kelp"}),
    ):
        with pytest.raises(InvalidSetting):
            wrong(report)
    with pytest.raises(hf.HoldfastError, match="topic"):
        app.schedule("0 7 * * *", id="d")(report)
    assert list(app.schedules) == ["report"]
