"""Configured agents: created once, found by id and by name."""

from __future__ import annotations

from holdfast.errors import Conflict, InvalidName, InvalidPayload, InvalidSetting, NotFound
from holdfast.model.configured_agents import Configuration, HostedAgent
from holdfast.testing.conformance.harness import Bench

TOLD = Configuration(model="scripted:a.toml", instructions="Be brief.", tools=("lookup", "refund"))


async def an_agent_is_found_by_id_and_by_name(bench: Bench) -> None:
    agents = bench.store.agents
    made = await agents.create(HostedAgent(agent_id="agent_1", name="helper", configuration=TOLD))
    assert (made.agent_id, made.name, made.kind, made.configuration) == (
        "agent_1",
        "helper",
        "assistant",
        TOLD,
    )
    assert made.created_at == bench.clock.wall_us()
    await bench.reopen()
    assert await bench.store.agents.get("agent_1") == made
    assert await bench.store.agents.find("helper") == made
    assert await bench.store.agents.find("nobody") is None
    async with bench.refuses(NotFound):
        await bench.store.agents.get("agent_2")


async def an_agent_is_created_once(bench: Bench) -> None:
    agents = bench.store.agents
    made = await agents.create(HostedAgent(agent_id="agent_1", name="helper", configuration=TOLD))
    bench.clock.advance(1)
    async with bench.expect_unchanged():
        assert await agents.create(HostedAgent(agent_id="agent_2", name="helper", configuration=TOLD)) == made
    async with bench.refuses(Conflict):
        await agents.create(HostedAgent(agent_id="agent_3", name="helper"))
    async with bench.refuses(Conflict):
        await agents.create(HostedAgent(agent_id="agent_1", name="another"))


async def agents_are_listed_by_name_in_their_namespace(bench: Bench) -> None:
    agents = bench.store.agents
    await bench.store.namespaces.create("elsewhere")
    for nth, name in enumerate(("cleo", "ada", "bob")):
        await agents.create(HostedAgent(agent_id=f"agent_{nth}", name=name))
    there = HostedAgent(agent_id="agent_0", name="ada", namespace="elsewhere", configuration=TOLD)
    await agents.create(there)
    first = await agents.list(limit=2)
    assert [agent.name for agent in first] == ["ada", "bob"]
    second = await agents.list(limit=2, cursor=first.next)
    assert ([agent.name for agent in second], second.next) == (["cleo"], None)
    assert [agent.configuration for agent in await agents.list(namespace="elsewhere")] == [TOLD]
    assert (await agents.get("agent_0", namespace="elsewhere")).name == "ada"
    async with bench.refuses(NotFound):
        await agents.create(HostedAgent(agent_id="agent_9", name="dora", namespace="nowhere"))


async def an_agent_that_makes_no_sense_is_refused(bench: Bench) -> None:
    for wrong, error in (
        (HostedAgent(agent_id="agent_1", name=""), InvalidName),
        (HostedAgent(agent_id="agent_1", name="a", kind="planner"), InvalidSetting),
        (HostedAgent(agent_id="a", name="a", configuration=Configuration(tools=("x", "x"))), InvalidPayload),
        (
            HostedAgent(agent_id="a", name="a", configuration=Configuration(context_tokens_max=0)),
            InvalidPayload,
        ),
    ):
        async with bench.refuses(error):
            await bench.store.agents.create(wrong)
