"""What a type checker knows about tools and replies. Read by mypy in `make lint`; nothing of it is ever run."""

from __future__ import annotations

from typing import assert_type

from anthropic import AsyncAnthropic
from anthropic.types import MessageParam, ToolParam
from openai import AsyncOpenAI
from openai.types.chat import ChatCompletionMessageParam, ChatCompletionToolMessageParam
from openai.types.responses import ResponseInputParam
from openai.types.responses.response_input_param import FunctionCallOutput

import holdfast as hf


@hf.tool(effect="read_only")
async def look(what: str, times: int = 1) -> list[str]:
    return [what] * times


@hf.agent
async def research(topic: str) -> str:
    return topic


async def anthropic(client: AsyncAnthropic, messages: list[MessageParam]) -> None:
    """Schemas go into the client, results into the conversation, without a cast."""
    assert_type(hf.schemas(look), list[ToolParam])
    reply = await client.messages.create(
        model="m", max_tokens=1, messages=messages, tools=hf.schemas(look, research)
    )
    results = await hf.run_tools(reply, [look, research])
    assert_type(results, MessageParam)
    messages += [{"role": "assistant", "content": reply.content}, results]


async def chat(client: AsyncOpenAI, messages: list[ChatCompletionMessageParam]) -> None:
    tools = hf.schemas(look, style="openai")
    reply = await client.chat.completions.create(model="m", messages=messages, tools=tools)
    assert_type(await hf.run_tools(reply, [look]), list[ChatCompletionToolMessageParam])
    messages += await hf.run_tools(reply.choices[0].message, [look])


async def responses(client: AsyncOpenAI, items: ResponseInputParam) -> None:
    tools = hf.schemas(look, style="responses")
    reply = await client.responses.create(model="m", input=items, tools=tools)
    results = await hf.run_tools(reply, [look])
    assert_type(results, list[FunctionCallOutput])
    items += results


async def calls() -> None:
    assert_type(await look("a"), list[str])
    assert_type(await hf.spawn(research, "a"), str)
    await look(5)  # type: ignore[arg-type]
    hf.schemas(print)  # type: ignore[call-overload]
    hf.schemas(look, style="xml")  # type: ignore[call-overload]
