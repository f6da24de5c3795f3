"""Providers that are busy, full, away or half-way gone; and what a request may not do."""

from __future__ import annotations

import asyncio
import contextlib
from typing import Any

import anthropic
import openai
import pytest
from llmock.scenarios import Fail, Match, Reply, StreamFault
from llmock.testing import LLMockServer

import holdfast as hf
from holdfast.engine.replay_check import replay
from holdfast.errors import JobHeld
from holdfast.model.events import LlmRequested, LlmResponded, ToolCalled
from holdfast.model.hash_chain import unseal
from holdfast.runtime.process import Process
from holdfast.store.clock import SystemClock
from tests.api.registry.worlds import until

pytestmark = pytest.mark.store("sqlite")

QUESTION: Any = [{"role": "user", "content": "Name a root that holds fast."}]
QUICK = hf.Retry(attempts=4, initial=0.001, maximum=0.002)
Claude = anthropic.AsyncAnthropic


def statuses(models: LLMockServer) -> list[int]:
    """What the server answered, by its own log."""
    return [record.status for record in models.state.journal.records()]


async def logged(models: LLMockServer, requests: int) -> list[int]:
    """The same once it has as many lines: that of a stream is written when the server notices that nobody reads on."""
    await until(lambda: len(statuses(models)) >= requests)
    return statuses(models)


async def ask(client: Claude, model: str = "claude-x") -> str:
    reply = await client.messages.create(model=model, max_tokens=50, messages=QUESTION)
    return "".join(block.text for block in reply.content if block.type == "text")


async def facts(process: Process, job_id: str, kind: type[Any]) -> list[Any]:
    events = [unseal(sealed) for sealed in await process.store.journal.read(job_id)]
    return [event for event in events if isinstance(event, kind)]


async def test_a_busy_provider_is_asked_again(app: hf.App, models: LLMockServer, claude: Claude) -> None:
    """Goal: the code never hears of it. Method: two refusals, one with a time to wait; each attempt is a fact."""
    models.state.scenarios.add(Fail(429, retry_after=0.01), Fail(529))
    wrapped = hf.wrap(claude, retry=QUICK)

    @app.agent
    async def asker() -> str:
        return await ask(wrapped)

    async with app.running() as process:
        job = await asker.start()
        assert await job.result()
        assert statuses(models) == [429, 529, 200]
        requests = await facts(process, job.id, LlmRequested)
        assert [one.attempt for one in requests] == [1, 2, 3]
        assert [bool(one.messages) for one in requests] == [True, False, False], "listed once"
        (reply,) = await facts(process, job.id, LlmResponded)
        assert reply.attempt == 3
        assert (await replay(process.store, job.id, asker.program, clock=SystemClock())).same


async def test_what_a_provider_says_against_a_request_is_caught_again_in_replay(
    app: hf.App, models: LLMockServer, claude: Claude
) -> None:
    models.state.scenarios.add(Fail(400, message="too many roots"))
    wrapped = hf.wrap(claude, retry=QUICK)

    @app.agent
    async def asker() -> str:
        try:
            return await ask(wrapped)
        except anthropic.BadRequestError as error:
            return f"{error.status_code}: {'too many roots' in str(error)}"

    async with app.running() as process:
        job = await asker.start()
        assert await job.result() == "400: True"
        assert statuses(models) == [400]
        assert (await replay(process.store, job.id, asker.program, clock=SystemClock())).same
        assert statuses(models) == [400]


async def test_a_refusal_that_ended_the_attempt_is_asked_anew(
    app: hf.App, models: LLMockServer, claude: Claude
) -> None:
    """Somebody corrects the key, and the next attempt must not find the old refusal."""
    models.state.scenarios.add(Fail(401))
    wrapped = hf.wrap(claude, retry=QUICK)

    @app.agent
    async def asker() -> str:
        return await ask(wrapped)

    async with app.running() as process:
        job = await asker.start()
        assert await job.result()
        assert statuses(models) == [401, 200]
        assert [one.generation for one in await facts(process, job.id, LlmRequested)] == [0, 1]


async def test_a_provider_that_stays_away_is_an_error_of_the_client(
    app: hf.App, models: LLMockServer, claude: Claude
) -> None:
    """Method: a client that points at a closed port. Its own error reaches the code, live and in replay."""
    nowhere = claude.copy(base_url="http://127.0.0.1:1")
    wrapped = hf.wrap(nowhere, retry=QUICK)

    @app.agent
    async def asker() -> str:
        try:
            return await ask(wrapped)
        except anthropic.APIConnectionError as error:
            return type(error.__cause__).__name__

    async with app.running() as process:
        job = await asker.start()
        assert await job.result() == "ConnectError"
        assert [one.attempt for one in await facts(process, job.id, LlmRequested)] == [1, 2, 3, 4]
        assert (await replay(process.store, job.id, asker.program, clock=SystemClock())).same


async def test_a_model_that_stays_away_has_a_stand_in(
    app: hf.App, models: LLMockServer, claude: Claude
) -> None:
    models.state.scenarios.add(Fail(529, times=None, match=Match(model="claude-x")))
    wrapped = hf.wrap(claude, retry=QUICK, fallback={"claude-x": "claude-y"})

    @app.agent
    async def asker() -> str:
        return await ask(wrapped)

    async with app.running() as process:
        job = await asker.start()
        assert await job.result()
        assert statuses(models) == [529, 529, 529, 529, 200]
        models_asked = [one.model for one in await facts(process, job.id, LlmRequested)]
        assert models_asked == ["claude-x"] * 4 + ["claude-y"]
        assert (await replay(process.store, job.id, asker.program, clock=SystemClock())).same
        assert len(statuses(models)) == 5


@pytest.mark.parametrize("kind", ["disconnect", "truncate"])
async def test_a_stream_that_is_cut_off_is_not_an_answer(
    app: hf.App, models: LLMockServer, claude: Claude, kind: Any
) -> None:
    """Goal: half an answer is never taken for a whole one. Method: the reader sees the client's error; the attempt
    fails, and the next asks anew."""
    models.state.scenarios.add(
        Reply("kelp holds on to the rock", times=None), StreamFault(kind, after_chunks=3)
    )
    wrapped = hf.wrap(claude, retry=QUICK)
    seen = []

    @app.agent
    async def asker() -> str:
        async with wrapped.messages.stream(model="claude-x", max_tokens=50, messages=QUESTION) as stream:
            try:
                return await stream.get_final_text()
            except Exception as error:
                seen.append(type(error).__name__)
                raise

    async with app.running():
        assert await asker() == "kelp holds on to the rock"
    assert len(seen) == 1, "told once, and the second attempt was whole"
    assert len(await logged(models, 2)) == 2


async def test_a_reader_that_stops_early_has_had_a_part(
    app: hf.App, models: LLMockServer, gpt: openai.AsyncOpenAI
) -> None:
    """What was read is on record; the replay reads it again, and asks nobody."""
    models.state.scenarios.add(Reply("one two three four five six seven eight nine ten", times=None))
    wrapped = hf.wrap(gpt)

    @app.agent
    async def asker() -> str:
        heard = ""
        stream = await wrapped.chat.completions.create(model="gpt-x", messages=QUESTION, stream=True)
        async for chunk in stream:
            heard += chunk.choices[0].delta.content or "" if chunk.choices else ""
            if "three" in heard:
                break
        await stream.close()
        return heard[: heard.index("three") + 5]

    async with app.running() as process:
        job = await asker.start()
        assert await job.result() == "one two three"
        assert (await replay(process.store, job.id, asker.program, clock=SystemClock())).same
        assert len(await logged(models, 1)) == 1


async def test_a_reader_that_fails_in_the_middle_gets_the_whole_answer_next_time(
    app: hf.App, models: LLMockServer, claude: Claude
) -> None:
    """Goal: a part is never taken for the whole. Method: the reader's own error ends the first attempt half-way; the
    second reads on, finds the record too short, and the third asks anew."""
    models.state.scenarios.add(Reply("one two three four five six seven eight nine ten", times=None))
    wrapped = hf.wrap(claude)
    tries: list[str] = []

    @app.agent
    async def asker() -> str:
        heard = ""
        async with wrapped.messages.stream(model="claude-x", max_tokens=50, messages=QUESTION) as stream:
            async for text in stream.text_stream:
                heard += text
                if "three" in heard and not tries:
                    tries.append(heard)
                    raise ValueError("the reader stumbles")
        return heard

    async with app.running():
        assert await asker() == "one two three four five six seven eight nine ten"
    assert len(await logged(models, 2)) == 2


async def test_no_more_requests_than_allowed_are_made_at_once(
    app: hf.App, models: LLMockServer, claude: Claude
) -> None:
    wrapped = hf.wrap(claude, limits=hf.Limits(concurrency=2))
    inside = most = 0
    send = claude._client.send

    async def counted(*args: Any, **kwargs: Any) -> Any:
        nonlocal inside, most
        inside += 1
        most = max(most, inside)
        try:
            return await send(*args, **kwargs)
        finally:
            inside -= 1

    claude._client.send = counted  # type: ignore[method-assign]

    @app.agent
    async def asker() -> list[str]:
        return await asyncio.gather(*(ask(wrapped) for _ in range(8)))

    async with app.running() as process:
        job = await asker.start()
        assert len(await job.result()) == 8
        assert most == 2
        assert (await replay(process.store, job.id, asker.program, clock=SystemClock())).same


async def test_a_conversation_is_stored_once(app: hf.App, models: LLMockServer, claude: Claude) -> None:
    """Method: ten requests, each with all that was said before. Each lists what is new, and names the one before."""
    wrapped = hf.wrap(claude)

    @app.agent
    async def talker() -> int:
        said: list[Any] = []
        for number in range(10):
            said.append({"role": "user", "content": f"question {number}"})
            reply = await wrapped.messages.create(model="claude-x", max_tokens=50, messages=said)
            said.append({"role": "assistant", "content": [block.model_dump() for block in reply.content]})
        return len(said)

    async with app.running() as process:
        job = await talker.start()
        assert await job.result() == 20
        requests = await facts(process, job.id, LlmRequested)
        assert [len(one.messages) for one in requests] == [2] * 10
        assert [one.after for one in requests[1:]] == [f"{one.step_key}@0" for one in requests[:-1]]


async def test_other_requests_of_a_client_belong_in_a_tool(
    app: hf.App, models: LLMockServer, gpt: openai.AsyncOpenAI
) -> None:
    """Goal: nothing that could act twice goes unrecorded. Method: listing models in the agent, then in a step."""
    wrapped = hf.wrap(gpt)

    @app.step(effect="read_only")
    async def known() -> int:
        return len([model async for model in wrapped.models.list()])

    @app.agent
    async def right() -> int:
        return await known()

    @app.agent
    async def wrong() -> int:
        return len([model async for model in wrapped.models.list()])

    async with app.running():
        assert await right() >= 1
        with pytest.raises(JobHeld, match="from an agent's own code"):
            await wrong()


async def test_a_provider_that_acts_is_not_asked_twice(
    app: hf.App, models: LLMockServer, claude: Claude
) -> None:
    """A request that runs tools on the provider's side is an unsafe call, with an intent of its own."""
    wrapped = hf.wrap(claude)

    @app.agent
    async def asker() -> Any:
        search: Any = [{"type": "web_search_20250305", "name": "web_search"}]
        reply = await wrapped.messages.create(
            model="claude-x", max_tokens=50, messages=QUESTION, tools=search
        )
        return reply.role

    async with app.running() as process:
        job = await asker.start()
        assert await job.result() == "assistant"
        (intent,) = await facts(process, job.id, ToolCalled)
        assert (intent.tool, intent.effect) == ("anthropic.messages", "unsafe")


async def test_a_blocking_client_belongs_in_a_tool(app: hf.App, models: LLMockServer) -> None:
    with anthropic.Anthropic(base_url=models.base_url("anthropic"), api_key="test") as blocking:
        wrapped = hf.wrap(blocking)

        def request() -> str:
            reply = wrapped.messages.create(model="claude-x", max_tokens=50, messages=QUESTION)
            return reply.role

        step = app.step(effect="read_only", name="request")(request)

        @app.agent
        async def right() -> str:
            return await step()

        @app.agent
        async def wrong() -> str:
            with contextlib.suppress(Exception):  # the client would call it a connection error
                return request()
            return "caught"

        async with app.running():
            assert await right() == "assistant"
            with pytest.raises(JobHeld, match="a blocking model client in an agent's own code"):
                await wrong()
