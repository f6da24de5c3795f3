"""Scripted models: what they answer follows from what they are asked."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import holdfast as hf
from holdfast.agents.models.script import read_script, script_of
from holdfast.engine.replay_check import replay
from holdfast.errors import CallFailed, InvalidSetting
from holdfast.model.events import LlmRequested, LlmResponded
from holdfast.model.hash_chain import unseal
from holdfast.model.streams import Chunk
from holdfast.store.clock import SystemClock

pytestmark = pytest.mark.store("sqlite")

SUPPORT = """
[[reply]]
when = "Order 42"
calls = [{ tool = "lookup", args = { order = "42" } }]

[[reply]]
after = "lookup"
text = "It is {result}."

[[reply]]
turn = 1
text = "You said {said} before."

[[reply]]
text = "I do not know."
"""


@pytest.fixture
def script(tmp_path: Path) -> str:
    file = tmp_path / "support.toml"
    file.write_text(SUPPORT, encoding="utf-8")
    return f"scripted:{file}"


async def test_the_first_reply_that_fits_is_given(script: str) -> None:
    """Outside a job it is an ordinary call."""
    llm = hf.llm(script)
    said: list[Any] = [hf.user("where is order 42?")]
    reply = await llm.ask(said)
    (call,) = reply.calls
    assert (call.name, call.args, reply.text, reply.stop_reason) == (
        "lookup",
        {"order": "42"},
        "",
        "tool_use",
    )
    result = {"type": "tool_result", "tool_use_id": call.id, "content": "on its way"}
    reply = await llm.ask([*said, reply.message, hf.user([result])])
    assert (reply.text, reply.calls, reply.stop_reason) == ("It is on its way.", (), "end_turn")
    assert reply.usage.tokens > 0
    reply = await llm.ask([hf.user("hello"), hf.assistant("hello"), hf.user("what?")])
    assert reply.text == "You said what? before."
    assert (await llm.ask([hf.user("hello")])).text == "I do not know."


async def test_in_a_job_it_is_a_durable_step_and_is_heard(app: hf.App, script: str) -> None:
    llm = hf.llm(script)

    @app.agent
    async def asker() -> str:
        first = await llm.ask([hf.user("hello")])
        second = await llm.ask([hf.user("hello"), first.message, hf.user("and?")])
        return f"{first.text} {second.text}"

    async with app.running() as process:
        job = await asker.start()
        heard = [one.said async for one in job.stream() if isinstance(one, Chunk)]
        assert "".join(heard) == "I do not know.You said and? before."
        assert len(heard) == 8, "word by word"
        assert await job.result() == "I do not know. You said and? before."
        events = [unseal(sealed) for sealed in await process.store.journal.read(job.id)]
        assert sum(isinstance(one, LlmRequested) for one in events) == 2
        replies = [one for one in events if isinstance(one, LlmResponded)]
        assert all(one.usage["output"] > 0 for one in replies)
        assert (await replay(process.store, job.id, asker.program, clock=SystemClock())).same


async def test_a_script_that_fails_is_asked_again(app: hf.App) -> None:
    llm = hf.llm(
        [{"text": "at last", "fail": [529, 500]}], retry=hf.Retry(attempts=3, initial=0.001, maximum=0.001)
    )

    @app.agent
    async def asker() -> str:
        return (await llm.ask([hf.user("hello")])).text

    async with app.running() as process:
        job = await asker.start()
        assert await job.result() == "at last"
        events = [unseal(sealed) for sealed in await process.store.journal.read(job.id)]
        assert [one.attempt for one in events if isinstance(one, LlmRequested)] == [1, 2, 3]


async def test_a_conversation_that_no_reply_fits_is_an_error() -> None:
    llm = hf.llm([{"text": "hello", "when": "hello"}])
    assert (await llm.ask([hf.user("Hello there")])).text == "hello"
    with pytest.raises(CallFailed, match="no reply of the script fits"):
        await llm.ask([hf.user("goodbye")])


@pytest.mark.parametrize(
    "name", ["claude", "scripted:", "anthropic:", "scripted:missing.toml", "gemini:x"], ids=str
)
def test_a_name_that_names_no_model_is_refused(name: str, tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InvalidSetting) as caught:
        hf.llm(name)
    assert caught.value.hint


@pytest.mark.parametrize(
    "text, why",
    [
        ("[[reply]]\ntxt = 'x'", "unknown field `txt`"),
        ("[[reply]]\ndelay = 'soon'", "soon"),
        ("reply = 3", "Expected `array`"),
        ("= 3", "cannot be read"),
        ("", "missing required field `reply`"),
    ],
)
def test_a_file_that_does_not_fit_says_where(text: str, why: str, tmp_path: Path) -> None:
    file = tmp_path / "bad.toml"
    file.write_text(text, encoding="utf-8")
    with pytest.raises(InvalidSetting, match=why):
        read_script(file)


def test_lines_may_be_plain_texts() -> None:
    script = script_of(["hello"])
    found = script.find([hf.user("x")])
    assert found is not None
    assert found[1].text == "hello"
