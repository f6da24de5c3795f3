"""The model clients people use, inside steps: their tasks, pools and locks take no part in replay."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import anthropic
import openai
import pytest
from llmock.testing import LLMockServer

from holdfast.engine.durable_call import READS, DurableCall
from holdfast.engine.execution import Execution
from holdfast.engine.side_effects import Owner
from holdfast.model.replay_history import history_of
from holdfast.store.clock import SystemClock
from tests.engine.replay.stage import Journal, Tape

MESSAGES: Any = [{"role": "user", "content": "Name a root that holds fast."}]


@pytest.fixture(scope="module")
def models() -> Iterator[LLMockServer]:
    with LLMockServer() as server:
        yield server


def served(models: LLMockServer) -> int:
    """How many requests have come in: the server's own word."""
    return len(models.state.journal.records())


@pytest.mark.parametrize("streaming", [False, True])
def test_both_clients_in_parallel_replay_without_a_request(models: LLMockServer, streaming: bool) -> None:
    """Goal: a client in a step is a black box. Method: four calls at once, two of each client; replayed with clients
    that point nowhere."""

    async def program(drive: Execution, claude: anthropic.AsyncAnthropic, gpt: openai.AsyncOpenAI) -> Any:
        async def ask(name: str, n: int) -> str:
            async def run(_key: str) -> str:
                if name == "claude":
                    return await _ask_claude(claude, streaming)
                return await _ask_gpt(gpt, streaming)

            first: str = await drive.call(DurableCall("ask", [name, n], run, READS))
            second: str = await drive.call(DurableCall("again", [name, n, first], run, READS))
            return second

        return await asyncio.gather(ask("claude", 1), ask("gpt", 2), ask("claude", 3), ask("gpt", 4))

    def play(journal: Journal, anthropic_url: str, openai_url: str) -> tuple[Any, Journal]:
        async def run() -> Any:
            clock = SystemClock()
            tape = Tape(list(journal), clock.wall_us)
            facts = [(seq, event, at) for seq, (event, at) in enumerate(tape.events, 1)]
            drive = Execution(history_of(facts), tape, clock, Owner("default", "job_1", 1))
            async with (
                anthropic.AsyncAnthropic(base_url=anthropic_url, api_key="test", max_retries=0) as claude,
                openai.AsyncOpenAI(base_url=openai_url, api_key="test", max_retries=0) as gpt,
            ):
                return await drive.run(lambda: program(drive, claude, gpt)), tape.events

        output, events = asyncio.run(run())
        return output, events

    before = served(models)
    output, journal = play([], models.base_url("anthropic"), models.base_url("openai"))
    assert served(models) - before == 8
    assert all(isinstance(text, str) and text for text in output)
    nowhere = "http://127.0.0.1:9"
    assert play(journal, nowhere, nowhere) == (output, journal)
    assert served(models) - before == 8


async def _ask_claude(claude: anthropic.AsyncAnthropic, streaming: bool) -> str:
    if streaming:
        async with claude.messages.stream(model="scripted", max_tokens=50, messages=MESSAGES) as stream:
            return "".join([piece async for piece in stream.text_stream])
    reply: Any = await claude.messages.create(model="scripted", max_tokens=50, messages=MESSAGES)
    return str(reply.content[0].text)


async def _ask_gpt(gpt: openai.AsyncOpenAI, streaming: bool) -> str:
    if streaming:
        chunks: Any = await gpt.chat.completions.create(model="gpt-4o", messages=MESSAGES, stream=True)
        return "".join([chunk.choices[0].delta.content or "" async for chunk in chunks if chunk.choices])
    reply: Any = await gpt.chat.completions.create(model="gpt-4o", messages=MESSAGES)
    return str(reply.choices[0].message.content)
