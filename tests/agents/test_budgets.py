"""Budgets as authors declare them: hostile models are stopped, children pay with their parents, and people go on."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

import holdfast as hf
from holdfast.model.budget import Budget
from holdfast.model.events import BudgetReached, LlmRequested, LlmResponded
from holdfast.model.hash_chain import unseal
from holdfast.model.jobs import JobFilter
from holdfast.model.states import MailKind, Status, WaitReason
from holdfast.model.time import MINUTE
from holdfast.testing.conformance.harness import Backend
from tests.engine.shop import Shop, opened
from tests.support.fixtures.stores import STORES

pytestmark = pytest.mark.parametrize("backend", STORES, indirect=True)


class Loop:
    """An agent whose model asks for its tool again and again, whatever it hears."""

    def __init__(self, budget: hf.Budget) -> None:
        self.app = hf.App(store="memory:")
        self.done: Counter[str] = Counter()
        self.llm = hf.llm([{"calls": [{"tool": "dig", "args": {"what": "more"}}]}])
        self.dig = self.app.tool(effect="read_only", name="dig")(self._dig)
        self.digger = self.app.agent(name="digger", budget=budget)(self._digger)

    async def _dig(self, what: str) -> str:
        self.done[what] += 1
        return what

    async def _digger(self, topic: str) -> str:
        messages: list[Any] = [hf.user(topic)]
        while True:
            reply = await self.llm.ask(messages, tools=[self.dig])
            if not reply.calls:
                return reply.text
            messages += [reply.message, await hf.run_tools(reply.message, [self.dig])]


async def start(shop: Shop, loop: Loop) -> str:
    shop.programs |= loop.app.programs()
    return (await shop.store.jobs.submit(loop.digger.draft({"topic": "kelp"}))).job_id


async def usages(shop: Shop, job_id: str) -> list[int]:
    """The tokens of each answer."""
    events = [unseal(sealed) for sealed in await shop.store.journal.read(job_id)]
    answers = [event.usage for event in events if isinstance(event, LlmResponded)]
    return [usage["input"] + usage["output"] for usage in answers]


async def limits_reached(shop: Shop, job_id: str) -> list[str]:
    events = [unseal(sealed) for sealed in await shop.store.journal.read(job_id)]
    return [event.limit for event in events if isinstance(event, BudgetReached)]


@pytest.mark.parametrize(
    "budget, limit", [(hf.Budget(tool_calls=5), "tool_calls"), (hf.Budget(tokens=2000), "tokens")]
)
async def test_an_endless_tool_loop_is_stopped(backend: Backend, budget: hf.Budget, limit: str) -> None:
    """A model that never comes to an end: stopped by calls exactly, by tokens after the answer that crosses the limit.
    Raised, it goes on from where it stopped, up to the next limit."""
    async with opened(backend) as shop:
        loop = Loop(budget)
        job_id = await start(shop, loop)
        dug = 0
        for allowed in (getattr(budget, limit), 2 * getattr(budget, limit)):
            assert await shop.drive_all() == ["waiting"]
            head = await shop.store.jobs.head(job_id)
            assert (head.status, head.wait_reason) == (Status.WAITING, WaitReason.BUDGET)
            assert set(await limits_reached(shop, job_id)) == {limit}
            (account,) = await shop.store.budgets.find([job_id])
            assert account.tool_calls == loop.done["more"] > dug
            dug = loop.done["more"]
            answers = await usages(shop, job_id)
            assert account.tokens == sum(answers)
            if limit == "tool_calls":
                assert account.tool_calls == allowed
            else:
                assert sum(answers[:-1]) < allowed <= sum(answers)
            more = {limit: 2 * allowed}
            await shop.tell(job_id, MailKind.BUDGET, {"budget_id": job_id, "limits": more})
        assert len(await limits_reached(shop, job_id)) == 2


async def test_a_request_that_cannot_be_afforded_is_not_sent(backend: Backend) -> None:
    """A model that only talks: the answer that crosses the limit is the last one asked for."""
    async with opened(backend) as shop:
        app, llm = hf.App(store="memory:"), hf.llm(["and then?"])

        @app.agent(budget=hf.Budget(tokens=100))
        async def chatter() -> None:
            messages: list[Any] = [hf.user("once upon a time")]
            while True:
                messages += [(await llm.ask(messages)).message, hf.user("go on")]

        shop.programs |= app.programs()
        job_id = (await shop.store.jobs.submit(chatter.draft({}))).job_id
        assert await shop.drive_all() == ["waiting"]
        events = [unseal(sealed) for sealed in await shop.store.journal.read(job_id)]
        answers = await usages(shop, job_id)
        assert sum(isinstance(event, LlmRequested) for event in events) == len(answers)
        assert sum(answers[:-1]) < 100 <= sum(answers)
        assert await limits_reached(shop, job_id) == ["tokens"]


async def test_what_an_agent_spawns_pays_with_it(backend: Backend) -> None:
    async with opened(backend) as shop:
        app, done = hf.App(store="memory:"), Counter[str]()

        @app.tool(effect="idempotent")
        async def note(word: str) -> str:
            done[word] += 1
            return word

        @app.agent(budget=hf.Budget(tool_calls=2))
        async def scribe(word: str) -> list[str]:
            return [await note(f"{word} {n}") for n in range(3)]

        @app.agent(budget=hf.Budget(tool_calls=4, wall="1h"))
        async def editor() -> list[str]:
            inline = await scribe("inline")
            return [*inline, *await hf.spawn(scribe, "child")]

        shop.programs |= app.programs()
        submitted = await shop.store.jobs.submit(editor.draft({}))
        await shop.drive_all()
        (child,) = (await shop.store.jobs.list(JobFilter(kind="scribe"))).items
        found = {
            one.budget_id: one for one in await shop.store.budgets.find([submitted.job_id, child.job_id])
        }
        assert found[submitted.job_id].limits == Budget(tool_calls=4, wall="1h")
        assert found[submitted.job_id].tool_calls == 4, "three of its own, one of its child"
        assert found[child.job_id].tool_calls == sum(done.values()) - 3 == 1
        assert child.wait_reason is WaitReason.BUDGET
        for budget_id in found:
            body = {"budget_id": budget_id, "limits": {"tool_calls": 9}}
            await shop.tell(child.job_id, MailKind.BUDGET, body)
        backend.clock.advance(MINUTE)
        await shop.drive_all()
        assert (await shop.job(submitted.job_id)).output == [
            *(f"inline {n}" for n in range(3)),
            *(f"child {n}" for n in range(3)),
        ]
        assert set(done.values()) == {1}
