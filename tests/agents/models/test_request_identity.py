"""The identity of a request: what does not change the question does not buy the answer again, and what does is said."""

from __future__ import annotations

import itertools
import logging
import uuid
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import Any

import openai
import pytest
from llmock.testing import LLMockServer

import holdfast as hf
from holdfast.agents.models.client_transport import _WIRES
from holdfast.agents.models.openai_wire import ChatWire, ResponsesWire
from holdfast.client.in_process import EmbeddedClient
from holdfast.engine.replay_check import replay
from holdfast.errors import InvalidSetting
from holdfast.model.events import JobParked, LlmRepurchased, LlmRequested, ToolCalled
from holdfast.model.hash_chain import unseal
from holdfast.model.ids import RandomIds
from holdfast.runtime.process import Process
from holdfast.store.clock import SystemClock

pytestmark = pytest.mark.store("sqlite")

QUESTION = "Name a root that holds fast."
Ask = Callable[[Any, int], Coroutine[Any, Any, Any]]


def paid(models: LLMockServer) -> int:
    return len([record for record in models.state.journal.records() if record.status == 200])


async def facts(process: Process, job_id: str, kind: type[Any]) -> list[Any]:
    events = [unseal(sealed) for sealed in await process.store.journal.read(job_id)]
    return [event for event in events if isinstance(event, kind)]


@asynccontextmanager
async def asked_twice(app: hf.App, client: Any, ask: Ask) -> AsyncIterator[tuple[Process, Any, hf.Job[Any]]]:
    """A job that asks, waits until it is resumed from the top, and asks again; `ask` is told the run's number."""
    runs = itertools.count()

    @app.agent
    async def asker() -> Any:
        answer = await ask(client, next(runs))
        await hf.wait("go on")
        return answer

    async with app.running() as process:
        job = await asker.start()
        await until_held(process, job, "signal")
        await job.signal("go on")
        yield process, asker, job


async def until_held(process: Process, job: hf.Job[Any], reason: str) -> None:
    while (await process.store.jobs.head(job.id)).wait_reason != reason:
        await process.store.wakeups.wait(frozenset({f"job:{job.id}"}), 0.05)


def operator(process: Process) -> EmbeddedClient:
    return EmbeddedClient(process.store, SystemClock(), RandomIds())


async def chat(client: Any, run: int, **more: Any) -> Any:
    messages = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": QUESTION}]
    reply = await client.chat.completions.create(**{"model": "gpt-x", "messages": messages, **more})
    return reply.choices[0].message.content


async def respond(client: Any, run: int, **more: Any) -> Any:
    reply = await client.responses.create(model="gpt-x", input=QUESTION, **more)
    return reply.output_text


async def ask_claude(client: Any, run: int, **more: Any) -> Any:
    messages = [{"role": "user", "content": QUESTION}]
    reply = await client.messages.create(model="claude-x", max_tokens=50, messages=messages, **more)
    return reply.content[0].text


def different(field: str) -> Any:
    """A value that no two runs have in common."""
    return {"id": str(uuid.uuid4())} if field == "metadata" else str(uuid.uuid4())


OPENAI_FIELDS = ("prompt_cache_key", "safety_identifier", "user", "metadata")
SAME = [
    *((chat, field) for field in OPENAI_FIELDS),
    *((respond, field) for field in OPENAI_FIELDS),
    (ask_claude, "metadata"),
]


@pytest.mark.parametrize("ask, field", SAME, ids=lambda one: getattr(one, "__name__", one))
async def test_what_does_not_change_the_question_is_not_bought_again(
    app: hf.App, models: LLMockServer, claude: Any, gpt: Any, ask: Any, field: str
) -> None:
    client = hf.wrap(claude if ask is ask_claude else gpt)

    async def asks(client: Any, run: int) -> Any:
        return await ask(client, run, extra_body={field: different(field)})

    async with asked_twice(app, client, asks) as (process, asker, job):
        assert await job.result()
        assert paid(models) == 1
        assert not await facts(process, job.id, LlmRepurchased)
        (request,) = await facts(process, job.id, LlmRequested)
        sent = await process.store.blobs.get(request.messages[0])
        assert field.encode() in sent, "what was sent is on record as it was sent"
        verdict = await replay(process.store, job.id, asker.program, clock=SystemClock())
        assert verdict.same, verdict


async def test_a_field_of_ones_own_is_left_out(app: hf.App, models: LLMockServer, gpt: Any) -> None:
    async def asks(client: Any, run: int) -> Any:
        return await chat(client, run, extra_body={"trace_id": str(uuid.uuid4())})

    async with asked_twice(app, hf.wrap(gpt, ignore=("trace_id",)), asks) as (_, _, job):
        assert await job.result()
    assert paid(models) == 1


async def ask_at_another_temperature(client: Any, run: int) -> Any:
    return await chat(client, run, temperature=run / 10)


async def ask_with_the_time(client: Any, run: int) -> Any:
    messages = [{"role": "system", "content": f"It is {run} o'clock."}, {"role": "user", "content": QUESTION}]
    return await chat(client, run, messages=messages)


async def ask_with_more(client: Any, run: int) -> Any:
    return await chat(client, run, messages=[{"role": "user", "content": QUESTION}] * (run + 1))


async def ask_another_model(client: Any, run: int) -> Any:
    return await chat(client, run, model=f"gpt-{run}", user=str(uuid.uuid4()))


async def ask_with_other_tools(client: Any, run: int) -> Any:
    tool = {"type": "function", "function": {"name": "look", "description": f"at {run}", "parameters": {}}}
    return await chat(client, run, tools=[tool]) or "it calls the tool"


async def respond_otherwise(client: Any, run: int) -> Any:
    reply = await client.responses.create(model="gpt-x", input=[{"role": "user", "content": f"run {run}"}])
    return reply.output_text


DIFFERENT = [
    (ask_at_another_temperature, ("temperature",)),
    (ask_with_the_time, ("messages[0].content",)),
    (ask_with_more, ("messages (1 recorded, 2 now)",)),
    (ask_another_model, ("model",)),
    (ask_with_other_tools, ("tools[0].function.description",)),
    (respond_otherwise, ("input[0].content",)),
]


@pytest.mark.parametrize("ask, fields", DIFFERENT, ids=lambda one: getattr(one, "__name__", ""))
async def test_what_is_bought_again_is_said_with_the_field(
    app: hf.App,
    models: LLMockServer,
    gpt: Any,
    caplog: pytest.LogCaptureFixture,
    ask: Ask,
    fields: tuple[str, ...],
) -> None:
    caplog.set_level(logging.WARNING, logger="holdfast.models")
    async with asked_twice(app, hf.wrap(gpt), ask) as (process, _, job):
        assert await job.result()
        assert paid(models) == 2
        (event,) = await facts(process, job.id, LlmRepurchased)
        assert event.fields == fields
        assert (event.step_key, event.generation) == (
            (await facts(process, job.id, LlmRequested))[0].step_key,
            0,
        )
        trace = await operator(process).trace(job.id)
    (line,) = [record.getMessage() for record in caplog.records if record.name == "holdfast.models"]
    assert job.id in line
    assert f"differs in {', '.join(fields)}" in line
    assert "ignore=" in line
    assert any(f"differs in {', '.join(fields)}" in note.text for note in trace.notes)


async def test_a_repurchase_parks_if_its_author_wants_that(
    app: hf.App, models: LLMockServer, gpt: Any
) -> None:
    """Goal: nothing is paid before a person has said so. Method: the job is parked at its second run, and goes on when
    its difference is accepted."""
    client = hf.wrap(gpt, on_repurchase="park")
    async with asked_twice(app, client, ask_with_the_time) as (process, _, job):
        await until_held(process, job, "drift")
        parked = await facts(process, job.id, JobParked)
        assert paid(models) == 1
        assert parked[0].report["why"] == (
            "a recorded answer would be bought again: the request differs in messages[0].content"
        )
        assert not await facts(process, job.id, LlmRepurchased)
        await operator(process).resume(job.id, choice="accept", why="it may cost", by="ada")
        assert await job.result()
        assert paid(models) == 2


async def test_a_request_that_moved_is_adopted_and_not_bought(
    app: hf.App, models: LLMockServer, gpt: Any
) -> None:
    """Another request in the first one's place takes nothing from it: the first is found where it is made now."""

    async def asks(client: Any, run: int) -> Any:
        if run:
            await chat(client, run, messages=[{"role": "user", "content": "One more."}])
        return await chat(client, run)

    async with asked_twice(app, hf.wrap(gpt), asks) as (_, _, job):
        assert await job.result()
    assert paid(models) == 2


async def test_a_request_in_which_the_provider_acts_is_the_same_call(
    app: hf.App, models: LLMockServer, gpt: Any
) -> None:
    async def asks(client: Any, run: int) -> Any:
        return await chat(
            client,
            run,
            web_search_options={"search_context_size": "low"},
            extra_body={"prompt_cache_key": str(uuid.uuid4())},
        )

    async with asked_twice(app, hf.wrap(gpt), asks) as (process, _, job):
        assert await job.result()
        assert len(await facts(process, job.id, ToolCalled)) == 1
    assert paid(models) == 1


@pytest.mark.parametrize("ignore", ["user", ("messages",), ("tools", "x"), (1,)], ids=repr)
def test_ignore_names_fields_that_are_not_the_question(ignore: Any) -> None:
    with pytest.raises(InvalidSetting, match="ignore="):
        hf.wrap(openai.AsyncOpenAI(api_key="test"), ignore=ignore)


def test_on_repurchase_is_one_of_two_words() -> None:
    with pytest.raises(InvalidSetting, match="on_repurchase='stop'"):
        hf.wrap(openai.AsyncOpenAI(api_key="test"), on_repurchase="stop")  # type: ignore[arg-type]


def test_no_wire_ignores_its_messages_or_its_model() -> None:
    for wire in _WIRES.values():
        assert wire.ignored.isdisjoint({"model", wire.messages_field, "tools", "system", "instructions"})
    assert {"prompt_cache_key", "safety_identifier"} <= ChatWire.ignored & ResponsesWire.ignored
