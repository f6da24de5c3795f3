"""What models send that nobody should: half characters, control sequences, endless answers, tools nobody has."""

from __future__ import annotations

from typing import Any

import openai
import pytest
from llmock.scenarios import ToolFault
from llmock.testing import LLMockServer

import holdfast as hf
from holdfast.engine.replay_check import replay
from holdfast.errors import CallFailed
from holdfast.model.limits import RESULT_BYTES_MAX
from holdfast.model.streams import Chunk
from holdfast.store.clock import SystemClock

pytestmark = pytest.mark.store("sqlite")

UGLY = "half \ud800 a character, \x00 nothing, \x1b[31m red, \u202e backwards, \ufeff"


async def test_half_characters_and_control_sequences_are_kept_as_they_are(app: hf.App) -> None:
    """In the answer, in the stream, in what a tool is given, and in replay."""
    given: list[str] = []

    @app.tool(effect="read_only")
    async def note(text: str) -> str:
        """Note a text."""
        given.append(text)
        return text

    llm = hf.llm([{"turn": 0, "calls": [{"tool": "note", "args": {"text": UGLY}}]}, f"{UGLY}."])

    @app.agent
    async def asker() -> str:
        said: list[Any] = [hf.user("go")]
        first = await llm.ask(said, tools=[note])
        said += [first.message, await hf.run_tools(first, [note])]
        return (await llm.ask(said)).text

    async with app.running() as process:
        job = await asker.start()
        heard = "".join([one.said async for one in job.stream() if isinstance(one, Chunk)])
        assert await job.result() == f"{UGLY}."
        assert heard == f"{UGLY}."
        assert given == [UGLY]
        assert (await replay(process.store, job.id, asker.program, clock=SystemClock())).same


async def test_an_answer_that_no_journal_takes_is_an_error_that_code_can_catch(app: hf.App) -> None:
    """Ten megabytes of text: refused once, on record as refused, and not asked for again by itself."""
    llm = hf.llm(["x" * 10_000_000], retry=hf.Retry(attempts=3, initial=0.001, maximum=0.001))

    @app.agent
    async def asker() -> str:
        try:
            return (await llm.ask([hf.user("go")])).text
        except CallFailed as error:
            return str(error)

    async with app.running() as process:
        job = await asker.start()
        said = await job.result()
        assert f"{RESULT_BYTES_MAX:,}" in said
        assert (await replay(process.store, job.id, asker.program, clock=SystemClock())).same


@pytest.mark.parametrize(
    "kind, said", [("malformed_arguments", "invalid_arguments"), ("unknown_tool", "unknown_tool")]
)
async def test_a_call_that_cannot_be_made_goes_back_to_the_model(
    app: hf.App, models: LLMockServer, gpt: openai.AsyncOpenAI, kind: Any, said: str
) -> None:
    models.state.scenarios.add(ToolFault(kind))
    wrapped = hf.wrap(gpt)
    told: list[Any] = []

    @app.tool(effect="unsafe")
    async def pay(cents: int) -> str:
        """Pay."""
        raise AssertionError(cents)

    @app.agent
    async def asker() -> str | None:
        messages: list[Any] = [{"role": "user", "content": "pay"}]
        while True:
            reply = await wrapped.chat.completions.create(
                model="gpt-x", messages=messages, tools=hf.schemas(pay, style="openai")
            )
            message = reply.choices[0].message
            if not message.tool_calls:
                return message.content
            answers = await hf.run_tools(reply, [pay])
            told.extend(answers)
            messages += [message.to_dict(), *answers]

    async with app.running():
        assert await asker(), "and goes on"
    assert said in told[0]["content"]


async def test_a_model_that_never_stops_asking_for_tools_is_stopped_by_the_limit_of_its_job(
    app: hf.App,
) -> None:
    """The loop is the code's; here it ends after so many rounds, whatever the model says."""

    @app.tool(effect="read_only")
    async def look() -> str:
        """Look."""
        return "nothing"

    llm = hf.llm([{"calls": [{"tool": "look"}]}])

    @app.agent
    async def asker() -> int:
        said: list[Any] = [hf.user("go")]
        for rounds in range(50):
            reply = await llm.ask(said, tools=[look])
            if not reply.calls:
                return rounds
            said += [reply.message, await hf.run_tools(reply, [look])]
        return -1

    async with app.running():
        assert await asker() == -1
