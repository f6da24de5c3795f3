"""A real server that both clients take for their provider's, and an application on a file."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import anthropic
import openai
import pytest
from llmock.testing import LLMockServer

import holdfast as hf


@pytest.fixture(scope="module")
def server() -> Iterator[LLMockServer]:
    with LLMockServer() as started:
        yield started


@pytest.fixture
def models(server: LLMockServer) -> Iterator[LLMockServer]:
    """The server, with nothing asked and nothing planned."""
    server.state.scenarios.clear()
    server.state.journal.clear()
    yield server
    server.state.scenarios.clear()


@pytest.fixture
def app(tmp_path: Path) -> hf.App:
    return hf.App(store=f"sqlite:///{tmp_path / 'test.db'}")


@pytest.fixture
async def claude(models: LLMockServer) -> AsyncIterator[anthropic.AsyncAnthropic]:
    async with anthropic.AsyncAnthropic(base_url=models.base_url("anthropic"), api_key="test") as client:
        yield client


@pytest.fixture
async def gpt(models: LLMockServer) -> AsyncIterator[openai.AsyncOpenAI]:
    async with openai.AsyncOpenAI(base_url=models.base_url("openai"), api_key="test") as client:
        yield client
