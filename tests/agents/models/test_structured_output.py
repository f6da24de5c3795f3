"""Structured output and pictures, through the clients' own helpers: the same object live and in replay."""

from __future__ import annotations

from typing import Any

import openai
import pytest
from llmock.scenarios import Reply
from llmock.testing import LLMockServer
from pydantic import BaseModel

import holdfast as hf
from holdfast.engine.replay_check import replay
from holdfast.store.clock import SystemClock

pytestmark = pytest.mark.store("sqlite")

PICTURE = "data:image/png;base64,iVBORw0KGgo="


class Root(BaseModel):
    name: str
    grip: int


@pytest.mark.parametrize("kind", ["parse", "stream"])
async def test_an_answer_is_parsed_into_the_readers_type(
    app: hf.App, models: LLMockServer, gpt: openai.AsyncOpenAI, kind: str
) -> None:
    models.state.scenarios.add(Reply('{"name": "kelp", "grip": 9}', times=None))
    wrapped = hf.wrap(gpt)
    seen: list[Any] = []
    said: Any = [
        {
            "role": "user",
            "content": [
                {"type": "text", "text": "Which root?"},
                {"type": "image_url", "image_url": {"url": PICTURE}},
            ],
        }
    ]

    @app.agent
    async def asker() -> str:
        if kind == "parse":
            reply = await wrapped.chat.completions.parse(model="gpt-x", messages=said, response_format=Root)
            root = reply.choices[0].message.parsed
        else:
            async with wrapped.chat.completions.stream(
                model="gpt-x", messages=said, response_format=Root
            ) as stream:
                root = (await stream.get_final_completion()).choices[0].message.parsed
        assert root is not None
        seen.append(root)
        return f"{root.name} {root.grip}"

    async with app.running() as process:
        job = await asker.start()
        assert await job.result() == "kelp 9"
        assert (await replay(process.store, job.id, asker.program, clock=SystemClock())).same
        assert seen[0] == seen[1] == Root(name="kelp", grip=9)
        assert len(models.state.journal.records()) == 1
