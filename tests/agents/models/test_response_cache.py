"""Answers that other jobs had: given again only if somebody wants that."""

from __future__ import annotations

from typing import Any

import anthropic
import pytest
from llmock.scenarios import Fail, Reply
from llmock.testing import LLMockServer

import holdfast as hf
from holdfast.engine.replay_check import replay
from holdfast.model.events import LlmResponded
from holdfast.model.hash_chain import unseal
from holdfast.store.clock import SystemClock

pytestmark = pytest.mark.store("sqlite")


async def ask(client: anthropic.AsyncAnthropic, question: str, *, stream: bool = False) -> str:
    said: Any = [{"role": "user", "content": question}]
    if stream:
        async with client.messages.stream(model="m", max_tokens=9, messages=said) as answer:
            return await answer.get_final_text()
    reply = await client.messages.create(model="m", max_tokens=9, messages=said)
    return "".join(block.text for block in reply.content if block.type == "text")


@pytest.mark.parametrize("stream", [False, True])
async def test_the_same_question_is_paid_for_once(
    app: hf.App, models: LLMockServer, claude: anthropic.AsyncAnthropic, stream: bool
) -> None:
    models.state.scenarios.add(Reply("kelp", times=None))
    cache = hf.Cache("dev", lifetime="1h")
    cached, plain = hf.wrap(claude, cache=cache), hf.wrap(claude)

    @app.agent
    async def asker(question: str, cheap: bool) -> str:
        return await ask(cached if cheap else plain, question, stream=stream)

    async with app.running() as process:
        assert await asker("a root?", True) == "kelp"
        job = await asker.start("a root?", True)
        assert await job.result() == "kelp"
        assert len(models.state.journal.records()) == 1
        assert (cache.stats.hits, cache.stats.misses) == (1, 1)
        (reply,) = [
            event
            for sealed in await process.store.journal.read(job.id)
            if isinstance(event := unseal(sealed), LlmResponded)
        ]
        assert reply.usage == {"cached": True}, "it cost nothing"
        assert (await replay(process.store, job.id, asker.program, clock=SystemClock())).same
        await asker("a leaf?", True)
        await asker("a root?", False)
        assert len(models.state.journal.records()) == 3, "another question, and one who does not want it"


async def test_a_refusal_is_not_kept(
    app: hf.App, models: LLMockServer, claude: anthropic.AsyncAnthropic
) -> None:
    models.state.scenarios.add(Fail(400), Reply("kelp", times=None))
    cached = hf.wrap(claude, cache=hf.Cache("dev"), retry=hf.Retry(attempts=1))

    @app.agent
    async def asker() -> str:
        try:
            return await ask(cached, "a root?")
        except anthropic.BadRequestError:
            return "refused"

    async with app.running():
        assert [await asker(), await asker(), await asker()] == ["refused", "kelp", "kelp"]
        assert len(models.state.journal.records()) == 2
