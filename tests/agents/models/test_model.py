"""`hf.llm` over real clients: the same conversation in three languages."""

from __future__ import annotations

from typing import Any

import pytest
from llmock.scenarios import Reply, ToolCall
from llmock.testing import LLMockServer

import holdfast as hf
from holdfast.agents.models.messages import from_chat, to_chat
from holdfast.engine.replay_check import replay
from holdfast.store.clock import SystemClock

pytestmark = pytest.mark.store("sqlite")

LOOKUP = {
    "name": "lookup",
    "description": "Where an order is.",
    "input_schema": {"type": "object", "properties": {"order": {"type": "string"}}, "required": ["order"]},
}


@pytest.mark.parametrize("provider", ["anthropic", "openai"])
async def test_a_model_asks_for_a_tool_and_goes_on(app: hf.App, models: LLMockServer, provider: str) -> None:
    models.state.scenarios.add(
        Reply(tool_calls=(ToolCall("lookup", {"order": "42"}),)), Reply("It is on its way.")
    )
    llm = hf.llm(f"{provider}:some-model", base_url=models.base_url(provider), api_key="test")

    @app.agent
    async def asker() -> list[Any]:
        said = [hf.user("where is order 42?")]
        first = await llm.ask(said, instructions="Be brief.", tools=[LOOKUP])
        (call,) = first.calls
        result = {"type": "tool_result", "tool_use_id": call.id, "content": "on its way"}
        second = await llm.ask([*said, first.message, hf.user([result])], tools=[LOOKUP])
        return [call.name, call.args, second.text, second.usage.output > 0]

    async with app.running() as process:
        job = await asker.start()
        assert await job.result() == ["lookup", {"order": "42"}, "It is on its way.", True]
        assert len(models.state.journal.records()) == 2
        assert (await replay(process.store, job.id, asker.program, clock=SystemClock())).same
        assert len(models.state.journal.records()) == 2
    await llm.close()


def test_a_conversation_in_openais_words() -> None:
    """Text, an image, a call and its result, there and back."""
    call = {"type": "tool_use", "id": "c1", "name": "lookup", "input": {"order": "42"}}
    image = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "AAAA"}}
    chat = to_chat(
        [
            hf.user([{"type": "text", "text": "see"}, image]),
            hf.assistant([{"type": "text", "text": "I look."}, call]),
            hf.user([{"type": "tool_result", "tool_use_id": "c1", "content": "on its way"}]),
        ],
        "Be brief.",
    )
    assert [one["role"] for one in chat] == ["system", "user", "assistant", "tool"]
    assert chat[1]["content"][1] == {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}
    assert chat[3] == {"role": "tool", "tool_call_id": "c1", "content": "on its way"}
    message, stop = from_chat({"choices": [{"message": chat[2], "finish_reason": "tool_calls"}]})
    assert message["content"] == [{"type": "text", "text": "I look."}, call]
    assert stop == "tool_calls"


def test_arguments_that_are_not_json_are_kept_as_they_are() -> None:
    broken = {"id": "c", "function": {"name": "f", "arguments": '{"a": '}}
    message, _ = from_chat({"choices": [{"message": {"tool_calls": [broken]}}]})
    assert message["content"][0]["input"] == '{"a": '
