"""`hf.wrap`: both clients, against a server that speaks their language. The server's own log says what was paid for."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any

import anthropic
import openai
import pytest
from llmock.testing import LLMockServer

import holdfast as hf
from holdfast.engine.replay_check import replay
from holdfast.model.events import LlmRequested, LlmResponded
from holdfast.model.hash_chain import unseal
from holdfast.runtime.process import Process
from holdfast.store.clock import SystemClock

pytestmark = pytest.mark.store("sqlite")

QUESTION: Any = [{"role": "user", "content": "Name a root that holds fast."}]
QUICK = hf.Retry(attempts=4, initial=0.001, maximum=0.002)


def paid(models: LLMockServer) -> int:
    """How many requests the server answered: its own word."""
    return len([record for record in models.state.journal.records() if record.status == 200])


def asked(models: LLMockServer) -> int:
    return len(models.state.journal.records())


async def facts(process: Process, job_id: str) -> list[Any]:
    return [unseal(sealed) for sealed in await process.store.journal.read(job_id)]


async def ask_claude(client: anthropic.AsyncAnthropic) -> Any:
    reply = await client.messages.create(model="claude-x", max_tokens=50, messages=QUESTION)
    return [block.text for block in reply.content if block.type == "text"], reply.usage.output_tokens


async def stream_claude(client: anthropic.AsyncAnthropic) -> Any:
    async with client.messages.stream(model="claude-x", max_tokens=50, messages=QUESTION) as stream:
        heard = [text async for text in stream.text_stream]
        final = await stream.get_final_message()
    return ["".join(heard)], final.stop_reason


async def raw_stream_claude(client: anthropic.AsyncAnthropic) -> Any:
    stream = await client.messages.create(model="claude-x", max_tokens=50, messages=QUESTION, stream=True)
    heard = [
        event.delta.text
        async for event in stream
        if event.type == "content_block_delta" and event.delta.type == "text_delta"
    ]
    return ["".join(heard)]


async def ask_gpt(client: openai.AsyncOpenAI) -> Any:
    reply = await client.chat.completions.create(model="gpt-x", messages=QUESTION)
    return reply.choices[0].message.content, reply.choices[0].finish_reason


async def stream_gpt(client: openai.AsyncOpenAI) -> Any:
    stream = await client.chat.completions.create(model="gpt-x", messages=QUESTION, stream=True)
    heard = [chunk.choices[0].delta.content or "" async for chunk in stream if chunk.choices]
    return "".join(heard)


async def respond_gpt(client: openai.AsyncOpenAI) -> Any:
    reply = await client.responses.create(model="gpt-x", input="Name a root that holds fast.")
    return reply.output_text, reply.status


async def stream_respond_gpt(client: openai.AsyncOpenAI) -> Any:
    stream = await client.responses.create(model="gpt-x", input="Name a root.", stream=True)
    return "".join([event.delta async for event in stream if event.type == "response.output_text.delta"])


async def embed_gpt(client: openai.AsyncOpenAI) -> Any:
    reply = await client.embeddings.create(model="embed-x", input=["a", "b"], encoding_format="float")
    return [len(one.embedding) for one in reply.data]


CLAUDES: list[Callable[[Any], Coroutine[Any, Any, Any]]] = [ask_claude, stream_claude, raw_stream_claude]
GPTS: list[Callable[[Any], Coroutine[Any, Any, Any]]] = [
    ask_gpt,
    stream_gpt,
    respond_gpt,
    stream_respond_gpt,
    embed_gpt,
]


@pytest.mark.parametrize("use", [*CLAUDES, *GPTS], ids=lambda use: use.__name__)
async def test_a_request_is_made_once_and_replayed_the_same(
    app: hf.App, models: LLMockServer, claude: Any, gpt: Any, use: Callable[[Any], Coroutine[Any, Any, Any]]
) -> None:
    """Goal: the code sees the same answer, and the provider one request. Method: the plain client first, then the
    wrapped one in a job; then the finished job replayed, counted by the server's own log."""
    client = claude if use in CLAUDES else gpt
    plain = await use(client)
    wrapped = hf.wrap(client)
    seen = []

    @app.agent
    async def asker() -> Any:
        answer = await use(wrapped)
        seen.append(answer)
        return answer

    async with app.running() as process:
        job = await asker.start()
        assert await job.result() == (list(plain) if isinstance(plain, tuple) else plain)
        assert paid(models) == 2
        verdict = await replay(process.store, job.id, asker.program, clock=SystemClock())
        assert verdict.same, verdict
        assert paid(models) == 2, "a replay asks nobody"
        assert seen[0] == seen[1] == plain
        events = await facts(process, job.id)
        (request,) = [one for one in events if isinstance(one, LlmRequested)]
        (reply,) = [one for one in events if isinstance(one, LlmResponded)]
        assert request.model in {"claude-x", "gpt-x", "embed-x"}
        assert reply.error is None
        for digest in request.messages:
            assert await process.store.blobs.has(digest)
