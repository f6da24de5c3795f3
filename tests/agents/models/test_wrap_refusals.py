"""`hf.wrap` refuses what it cannot make durable, and says what to do instead."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import anthropic
import httpx
import openai
import pytest
from llmock.testing import LLMockServer

import holdfast as hf
from holdfast.errors import InvalidSetting, JobHeld

pytestmark = pytest.mark.store("sqlite")

QUESTION: Any = [{"role": "user", "content": "Name a root that holds fast."}]


class Instructor:
    """As libraries are built that are built on a client: what they do not have themselves, the client answers."""

    def __init__(self, client: Any) -> None:
        self.client = client

    def __getattr__(self, name: str) -> Any:
        return getattr(self.client, name)


class Chat:
    """One that keeps its client where it cannot be found."""

    def __init__(self, client: Any) -> None:
        self._provider = client

    def copy(self) -> Chat:
        return Chat(self._provider)


@pytest.mark.parametrize(
    "make", [openai.AsyncOpenAI, openai.OpenAI, anthropic.AsyncAnthropic, anthropic.Anthropic]
)
def test_what_is_built_on_a_client_is_refused_and_the_client_named(make: Any) -> None:
    with pytest.raises(InvalidSetting, match="Instructor is not a model client") as refused:
        hf.wrap(Instructor(make(api_key="test")))
    assert f"hf.wrap({make.__name__}(…))" in refused.value.hint
    wrapped = Instructor(hf.wrap(make(api_key="test")))  # the remedy
    assert type(wrapped.client) is make


@pytest.mark.parametrize(
    "client",
    [None, "claude", {"_client": 1}, openai.AsyncOpenAI, httpx.AsyncClient(), Chat(None), lambda: None],
    ids=lambda client: type(client).__name__,
)
def test_whatever_is_no_client_is_refused(client: Any) -> None:
    with pytest.raises(InvalidSetting, match="is not a model client that can be wrapped") as refused:
        hf.wrap(client)
    assert "AsyncOpenAI" in refused.value.hint


def test_clients_of_other_endpoints_are_wrapped() -> None:
    azure = openai.AsyncAzureOpenAI(api_key="test", api_version="1", azure_endpoint="https://example.com")
    assert type(hf.wrap(azure)) is openai.AsyncAzureOpenAI
    assert type(hf.wrap(hf.wrap(azure))) is openai.AsyncAzureOpenAI


@pytest.fixture
def blocking(models: LLMockServer) -> Iterator[anthropic.Anthropic]:
    with anthropic.Anthropic(base_url=models.base_url("anthropic"), api_key="test") as client:
        yield client


def in_own_loop(models: LLMockServer) -> str:
    async def ask() -> str:
        async with anthropic.AsyncAnthropic(base_url=models.base_url("anthropic"), api_key="test") as client:
            wrapped = hf.wrap(client)
            reply = await wrapped.messages.create(model="claude-x", max_tokens=50, messages=QUESTION)
            return reply.role

    return asyncio.run(ask())


def ask_blocking(client: anthropic.Anthropic) -> str:
    return client.messages.create(model="claude-x", max_tokens=50, messages=QUESTION).role


async def to_thread(ask: Callable[[], str]) -> str:
    return await asyncio.to_thread(ask)


async def in_executor(ask: Callable[[], str]) -> str:
    return await asyncio.get_running_loop().run_in_executor(None, ask)


async def in_own_executor(ask: Callable[[], str]) -> str:
    with ThreadPoolExecutor(1) as pool:
        return await asyncio.get_running_loop().run_in_executor(pool, ask)


@pytest.mark.parametrize("kind", ["async", "blocking"])
@pytest.mark.parametrize("elsewhere", [to_thread, in_executor, in_own_executor], ids=lambda one: one.__name__)
async def test_a_thread_of_job_code_is_refused(
    app: hf.App,
    models: LLMockServer,
    blocking: anthropic.Anthropic,
    kind: str,
    elsewhere: Callable[[Callable[[], str]], Awaitable[str]],
) -> None:
    """Goal: a request that would be bought again by every replay is not made. Method: the client catches errors and
    calls them connection errors; the job's own error says what is wrong, and the provider has heard nothing."""
    plain = hf.wrap(blocking)
    ask = (lambda: in_own_loop(models)) if kind == "async" else (lambda: ask_blocking(plain))

    @app.agent
    async def asker() -> str:
        return await elsewhere(ask)

    where = "another event loop" if kind == "async" else "a thread"
    async with app.running():
        with pytest.raises(
            JobHeld, match=f"a wrapped model client is used in {where} by an agent's own code"
        ):
            await asker()
    assert not models.state.journal.records()


@pytest.mark.parametrize("kind", ["async", "blocking"])
async def test_a_thread_of_a_tool_is_the_tools_own_business(
    app: hf.App,
    models: LLMockServer,
    blocking: anthropic.Anthropic,
    kind: str,
) -> None:
    plain = hf.wrap(blocking)
    ask = (lambda: in_own_loop(models)) if kind == "async" else (lambda: ask_blocking(plain))

    @app.tool(effect="read_only")
    async def asks() -> str:
        return await asyncio.to_thread(ask)

    @app.agent
    async def asker() -> str:
        return await asks()

    async with app.running():
        assert await asker() == "assistant"


async def test_a_thread_outside_a_job_is_left_alone(app: hf.App, blocking: anthropic.Anthropic) -> None:
    assert await asyncio.to_thread(ask_blocking, hf.wrap(blocking)) == "assistant"
