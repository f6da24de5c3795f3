"""The surface as a type checker sees it. Read by mypy, never run: see `test_types.py`.

A line with `# type: ignore[…]` is a wrong call: that it is an error is the point.
"""

from __future__ import annotations

import asyncio
import datetime as dt
import uuid
from collections.abc import AsyncGenerator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, assert_type

from anthropic import Anthropic, AsyncAnthropic
from openai import AsyncOpenAI

import holdfast as hf
from holdfast.agents.assistant import Assistant
from holdfast.agents.sessions import SessionAgent
from holdfast.client import ExternalAgent, WorkAssignment

if TYPE_CHECKING:
    from anthropic.types import Message, MessageParam, ToolParam
    from openai.types.chat import (
        ChatCompletion,
        ChatCompletionFunctionToolParam,
        ChatCompletionToolMessageParam,
    )
    from openai.types.responses import FunctionToolParam, Response
    from openai.types.responses.response_input_param import FunctionCallOutput


@dataclass
class Order:
    number: str
    cents: int


# ── tools and steps ───────────────────────────────────────────────────────────────────────────────


@hf.tool
async def bare(order: str) -> Order:
    return Order(order, 1)


@hf.tool(effect="read_only", timeout="10s")
async def lookup(order: str, *, deep: bool = False) -> Order:
    return Order(order, int(deep))


@hf.tool(effect="read_only")
def blocking(number: int) -> list[str]:
    return [str(number)]


@hf.step
def sync_step(number: int) -> int:
    return number


@hf.tool(effect="idempotent", key_lifetime="24h", approve=lambda cents, **_: cents > 50_00)
async def refund(order: str, cents: int, *, key: hf.Key = hf.KEY) -> Order:
    return Order(order, len(key) + cents)


async def tools() -> None:
    assert_type(await bare("42"), Order)
    assert_type(await lookup("42", deep=True), Order)
    assert_type(await blocking(1), list[str])
    assert_type(await sync_step(1), int)
    assert_type(await refund("42", 1), Order)
    await bare(42)  # type: ignore[arg-type]
    await lookup()  # type: ignore[call-arg]
    await lookup("42", depth=True)  # type: ignore[call-arg]
    await blocking("one")  # type: ignore[arg-type]
    await sync_step(number="one")  # type: ignore[arg-type]
    await refund("42")  # type: ignore[call-arg]
    hf.tool(effect="read_only", timeouts="10s")  # type: ignore[call-overload]


# ── agents and their jobs ─────────────────────────────────────────────────────────────────────────


@hf.agent
async def support(question: str, *, polite: bool = True) -> str:
    return question if polite else ""


@hf.agent(name="counting", queue="slow", priority=7)
async def count(words: list[str]) -> dict[str, int]:
    return {word: len(word) for word in words}


async def agents() -> None:
    assert_type(await support("where?"), str)
    assert_type(await support.start("where?"), hf.Job[str])
    assert_type(await support.start("where?", polite=False), hf.Job[str])
    assert_type(await support.start("where?", id="ticket-81"), hf.Job[str])
    assert_type(await (await count.start(["a"])).result(), dict[str, int])
    assert_type(await support.run("where?", polite=False), str)
    assert_type(await count.run(["a"], id="count-1"), dict[str, int])
    assert_type(await hf.spawn(count, ["a"]), dict[str, int])
    assert_type(await hf.spawn(support, "where?", polite=False), str)
    assert_type((await support.start("a")).stream(), AsyncGenerator[hf.Chunk | hf.AttemptSuperseded, None])
    await support(42)  # type: ignore[arg-type]
    await support.start(42)  # type: ignore[call-overload]
    await support.start("where?", loud=True)  # type: ignore[call-overload]
    await support.start("where?", id=81)  # type: ignore[call-overload]
    await support.run(42)  # type: ignore[call-overload]
    await support.run("where?", id=81)  # type: ignore[call-overload]
    await hf.spawn(count, "a")  # type: ignore[arg-type]
    await hf.spawn(support)  # type: ignore[call-arg]
    await hf.spawn(lookup, "42")  # type: ignore[arg-type]
    hf.agent(sync_step.function, 1)  # type: ignore[call-overload]


async def together() -> None:
    first, second = await asyncio.gather(support("a"), count(["b"]))
    assert_type(first, str)
    assert_type(second, dict[str, int])


# ── words ─────────────────────────────────────────────────────────────────────────────────────────


async def words() -> None:
    assert_type(hf.now(), dt.datetime)
    assert_type(hf.uuid(), uuid.UUID)
    assert_type(hf.random(), float)
    assert_type(await hf.restore(0), int)
    assert_type(await hf.checkpoint({"a": 1}), int)
    await hf.sleep("3d")
    await hf.sleep(dt.timedelta(days=3))
    await hf.sleep(None)  # type: ignore[arg-type]
    async with hf.scope("research"):
        await hf.wait("paid:42", timeout="1h")


async def questions() -> None:
    assert_type(await hf.ask("Fine?"), bool)
    assert_type(await hf.ask("Fine?", to="ops", timeout="2d"), bool)
    assert_type(await hf.ask("Which?", schema=Order), Order)
    assert_type(await hf.ask("How many?", schema=int), int)
    colour: Literal["red", "blue"] = await hf.ask("Which?", schema=Literal["red", "blue"])
    perhaps: int | None = await hf.ask("How many?", schema=int | None)
    assert_type(await hf.ask("Which?", schema=list[int]), list[int])
    wrong: str = await hf.ask("How many?", schema=int)  # type: ignore[arg-type]
    await hf.ask("Fine?", timeouts="2d")  # type: ignore[call-overload]
    await hf.ask("Fine?", schema="bool")  # type: ignore[call-overload]
    del colour, wrong, perhaps


# ── plans ─────────────────────────────────────────────────────────────────────────────────────────


async def planner(goal: str) -> hf.Plan:
    return hf.Plan([hf.Node("a", "lookup", {"order": goal})])


async def plans() -> None:
    plan = hf.Plan(
        [
            hf.Node("find", lookup, {"order": "42"}),
            hf.Node("ask", support, {"question": hf.Ref("find", "number")}, after=["find"]),
        ]
    )
    assert_type(await hf.execute(plan), dict[str, hf.NodeOutcome])
    assert_type(
        await hf.execute(plan, tools=[lookup, support], on_failure="go_on"), dict[str, hf.NodeOutcome]
    )
    assert_type(await hf.plan(planner, "42", tools=[lookup]), hf.Plan)
    assert_type(await hf.plan(hf.llm("scripted:x.toml"), "42", tools=[lookup]), hf.Plan)
    assert_type((await hf.execute(plan))["find"].status, Literal["succeeded", "failed", "skipped"])
    await hf.execute(plan, on_failure="retry")  # type: ignore[arg-type]
    await hf.plan(planner, 42, tools=[lookup])  # type: ignore[arg-type]
    await hf.execute([hf.Node("find", lookup)])  # type: ignore[arg-type]
    hf.Node("find", 42)  # type: ignore[arg-type]
    hf.Ref("find", 1.5)  # type: ignore[arg-type]


# ── models ────────────────────────────────────────────────────────────────────────────────────────


async def wrapped() -> None:
    claude = hf.wrap(AsyncAnthropic())
    assert_type(claude, AsyncAnthropic)
    assert_type(hf.wrap(Anthropic()), Anthropic)
    assert_type(hf.wrap(AsyncOpenAI(), limits=hf.Limits()), AsyncOpenAI)
    messages: list[MessageParam] = [hf.user("where is order 42?")]
    reply = await claude.messages.create(
        model="claude", max_tokens=9, messages=messages, tools=hf.schemas(lookup, refund)
    )
    assert_type(reply, Message)
    messages += [hf.assistant(reply), await hf.run_tools(reply, [lookup, refund, support])]
    hf.wrap(AsyncAnthropic(), limit=1)  # type: ignore[call-arg]


async def run_tools(
    message: Message, completion: ChatCompletion, response: Response, raw: dict[str, Any]
) -> None:
    tools = (lookup, refund)  # a list of tools without a declared type is a list of objects to mypy
    assert_type(await hf.run_tools(message, tools), MessageParam)
    assert_type(await hf.run_tools(completion, tools), list[ChatCompletionToolMessageParam])
    assert_type(
        await hf.run_tools(completion.choices[0].message, tools), list[ChatCompletionToolMessageParam]
    )
    assert_type(await hf.run_tools(response, tools), list[FunctionCallOutput])
    assert_type(await hf.run_tools(raw, tools), Any)
    await hf.run_tools("reply", tools)  # type: ignore[call-overload]
    await hf.run_tools(message, [print])  # type: ignore[list-item]


async def any_model() -> None:
    llm = hf.llm("anthropic:claude", fallback={"claude": "other"})
    assert_type(llm, hf.Model)
    messages = [hf.user("where is order 42?")]
    reply = await llm.ask(messages, tools=[lookup, support])
    assert_type(reply, hf.Reply)
    assert_type(reply.text, str)
    messages += [reply.message, await hf.run_tools(reply, [lookup])]
    await llm.ask(messages)
    await llm.ask("hello")  # type: ignore[arg-type]
    hf.llm("anthropic:claude", model="x")  # type: ignore[call-arg]


def schemas() -> None:
    assert_type(hf.schemas(lookup, support), list[ToolParam])
    assert_type(hf.schemas(lookup, style="openai"), list[ChatCompletionFunctionToolParam])
    assert_type(hf.schemas(lookup, style="responses"), list[FunctionToolParam])
    hf.schemas(lookup, style="gemini")  # type: ignore[call-overload]
    hf.schemas(print)  # type: ignore[call-overload]


# ── sessions ──────────────────────────────────────────────────────────────────────────────────────


@hf.session
async def clerk(turn: hf.Turn) -> str:
    return f"{len(turn.inputs)} new"


@hf.session(name="other")
async def other(turn: hf.Turn) -> None:
    turn.say(hf.assistant("hello"))


async def sessions() -> None:
    assert_type(clerk, SessionAgent)
    assert_type(other, SessionAgent)
    helper = hf.Assistant("helper", model="anthropic:claude", tools=[lookup, support])
    assert_type(helper, Assistant)
    assert_type(helper.session("ada"), hf.Session)
    assert_type(await helper.session("ada").send("hello"), str)
    hf.Assistant("helper", tools=[print])  # type: ignore[list-item]
    hf.session(support)  # type: ignore[arg-type]


# ── an agent that lives elsewhere ─────────────────────────────────────────────────────────────────

elsewhere = ExternalAgent("http://127.0.0.1:8080", handle="summer", capabilities=["summarize"])


@elsewhere.serves("summarize")
async def summarize(work: WorkAssignment) -> str:
    await work.progress(50, "half")
    await work.progress("half")  # type: ignore[arg-type]
    return work.description


@elsewhere.serves("measure")
def measure(work: WorkAssignment) -> int:
    work.progress(50)
    return len(work.description)


def elsewhere_too(work: WorkAssignment) -> None:
    assert_type(measure(work), int)
    elsewhere.serves("summarize")("no function")  # type: ignore[type-var]
    ExternalAgent()  # type: ignore[call-arg]


# ── an application of one's own ───────────────────────────────────────────────────────────────────

app = hf.App(store="memory:")


@app.tool(effect="unsafe")
def shout(what: str) -> str:
    return what.upper()


@app.agent
async def louder(what: str) -> str:
    return await shout(what)


async def own() -> None:
    assert_type(await louder("a"), str)
    await louder(1)  # type: ignore[arg-type]
    await shout(1)  # type: ignore[arg-type]
    hf.App(durability="weak")  # type: ignore[arg-type]
