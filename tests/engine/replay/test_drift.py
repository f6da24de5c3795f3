"""Code that no longer fits its journal is noticed before it acts."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from holdfast.engine.durable_call import READS, DurableCall
from holdfast.engine.run_outcomes import Failed, Parked
from holdfast.errors import CallFailed, InvalidMove
from holdfast.model.events import (
    CallMoved,
    Event,
    JobParked,
    JobRequeued,
    StepFinished,
    ToolCalled,
    ToolReturned,
)
from tests.engine.replay.stage import Journal, Played, World, play


async def report(world: World) -> Any:
    found = await world.look("find")
    await world.act("send_mail", found)
    return await world.look("check")


def after_the_mail() -> Played:
    """A run that was cut off when the mail was out and its receipt was written."""
    return play(report, seed=1, kill_after=4)


def _later(journal: Journal, *events: Event) -> Journal:
    """The journal, and what was written to it after its last fact."""
    return [*journal, *((event, journal[-1][1]) for event in events)]


def changed(program: Any) -> Played:
    return play(program, seed=2, journal=after_the_mail().journal)


def test_the_same_code_goes_on() -> None:
    resumed = changed(report)
    assert (resumed.output, resumed.live) == ("check", ["check"])


def test_a_renamed_tool_sends_no_second_mail() -> None:
    async def renamed(world: World) -> Any:
        found = await world.look("find")
        await world.act("post_mail", found)
        return await world.look("check")

    resumed = changed(renamed)
    assert isinstance(resumed.output, Parked)
    assert resumed.live == []
    assert resumed.output.report["recorded"][0]["step_key"] == "0/send_mail#1"
    assert resumed.output.report["attempted"]["step_key"] == "0/post_mail#1"


def test_a_tool_with_other_arguments_is_not_called_again() -> None:
    async def other_words(world: World) -> Any:
        await world.look("find")
        await world.act("send_mail", "something else")

    resumed = changed(other_words)
    assert isinstance(resumed.output, Parked)
    assert "other arguments" in resumed.output.report["why"]
    assert resumed.live == []


def test_a_new_effect_before_the_old_one_waits_for_it() -> None:
    """An effect that was put in front of a recorded one: the code asks for the recorded one only afterwards, so nobody
    can say whether the new one is the old one under another name."""

    async def one_more(world: World) -> Any:
        found = await world.look("find")
        await world.act("log_entry")
        await world.act("send_mail", found)

    resumed = changed(one_more)
    assert isinstance(resumed.output, Parked)
    assert resumed.live == []


def test_a_new_effect_beside_the_old_one_may_fire() -> None:
    """In another task it waits only until the recorded one has been asked for."""

    async def beside(world: World) -> Any:
        async def log() -> Any:
            return await world.act("log_entry")

        logged = asyncio.create_task(log())
        found = await world.look("find")
        await world.act("send_mail", found)
        return await logged

    resumed = changed(beside)
    assert (resumed.output, resumed.live) == ("log_entry", ["log_entry"])


def test_an_effect_under_a_shifted_number_is_not_sent_again() -> None:
    """The second call of its name has become the first: it adopts its record, and nothing is sent."""

    async def twice(world: World) -> Any:
        await world.act("send_mail", "first")
        await world.act("send_mail", "second")

    async def only_the_second(world: World) -> Any:
        await world.act("send_mail", "second")

    journal = play(twice, seed=1).journal
    resumed = play(only_the_second, seed=2, journal=journal)
    assert (resumed.output, resumed.live) == (None, [])
    assert [event.recorded_key for event, _ in resumed.journal if isinstance(event, CallMoved)] == [
        "0/send_mail#2"
    ]
    again = play(only_the_second, seed=3, journal=resumed.journal)
    assert (again.output, again.live, again.journal) == (None, [], resumed.journal)


def test_a_read_with_other_arguments_runs_again_and_both_answers_are_kept() -> None:
    async def before(world: World) -> Any:
        return await world.look("page", 1)

    async def after(world: World) -> Any:
        return await world.look("page", 2)

    journal = play(before, seed=1).journal
    resumed = play(after, seed=2, journal=journal)
    assert (resumed.output, resumed.live) == ("page:2", ["page"])
    assert [event.generation for event, _ in resumed.journal if isinstance(event, StepFinished)] == [0, 1]
    for program, output in ((before, "page:1"), (after, "page:2")):
        again = play(program, seed=3, journal=resumed.journal)
        assert (again.output, again.live) == (output, [])


def test_what_was_accepted_is_not_done_again() -> None:
    """Goal: a person who accepts a report sends no mail twice. Method: the first of three mails has another name; the
    report names all three, because none has been asked for; once it is accepted only the renamed one is new."""

    async def before(world: World) -> Any:
        return [await world.act(name, "hello") for name in ("one", "two", "three")]

    async def after(world: World) -> Any:
        return [await world.act(name, "hello") for name in ("uno", "two", "three")]

    first = play(before, seed=1)
    parked = play(after, seed=2, journal=first.journal)
    assert isinstance(parked.output, Parked)
    named = [one["name"] for one in parked.output.report["recorded"]]
    assert (named, parked.live) == (["one", "two", "three"], [])
    accepted = _later(first.journal, JobParked(parked.output.report), JobRequeued(by="ada", accepted=True))
    resumed = play(after, seed=3, journal=accepted)
    assert (resumed.output, resumed.live) == (["uno:hello", "two:hello", "three:hello"], ["uno"])


def test_what_was_accepted_may_be_asked_for_otherwise() -> None:
    async def before(world: World) -> Any:
        return await world.act("send_mail", "hello")

    async def after(world: World) -> Any:
        return await world.act("send_mail", "good day")

    first = play(before, seed=1)
    parked = play(after, seed=2, journal=first.journal)
    assert isinstance(parked.output, Parked)
    accepted = _later(first.journal, JobParked(parked.output.report), JobRequeued(by="ada", accepted=True))
    resumed = play(after, seed=3, journal=accepted)
    assert (resumed.output, resumed.live) == ("send_mail:good day", ["send_mail"])


def test_a_read_that_is_gone_is_only_forgotten() -> None:
    async def shorter(world: World) -> Any:
        return await world.look("check")

    async def longer(world: World) -> Any:
        await world.look("find")
        await world.look("find", "more")
        return await world.look("check")

    resumed = play(shorter, seed=1, journal=play(longer, seed=1).journal)
    assert resumed.output == "check"


def test_a_scope_keeps_its_calls_apart() -> None:
    """A call that is added in front of a scope shifts nothing inside it."""

    async def before(world: World) -> Any:
        with world.drive.scope("research"):
            return await world.act("send_mail", "hello")

    async def after(world: World) -> Any:
        await world.look("something new")
        with world.drive.scope("research"):
            return await world.act("send_mail", "hello")

    journal = play(before, seed=1).journal
    assert [event.step_key for event, _ in journal if isinstance(event, ToolCalled)] == [
        "0/research#1/send_mail#1"
    ]
    resumed = play(after, seed=2, journal=journal)
    assert (resumed.output, resumed.live) == ("send_mail:hello", ["something new"])


# ── where durable calls may be made ───────────────────────────────────────────────────────────────


@pytest.mark.parametrize("in_a_task", [False, True])
def test_a_durable_call_inside_a_call_is_an_error(in_a_task: bool) -> None:
    async def program(world: World) -> Any:
        async def inner(_key: str) -> Any:
            call = world.look("inner")
            return await (asyncio.create_task(call) if in_a_task else call)

        return await world.drive.call(DurableCall("outer", [], inner, READS))

    played = play(program, seed=1)
    assert isinstance(played.output, Failed)
    assert isinstance(played.output.error, InvalidMove)
    assert played.live == []


def test_tasks_inside_a_call_take_no_number() -> None:
    async def program(world: World) -> Any:
        async def noisy(_key: str) -> Any:
            await asyncio.gather(*(asyncio.sleep(0) for _ in range(3)))
            return "done"

        async def branch() -> Any:
            return await world.look("mine")

        await world.drive.call(DurableCall("noisy", [], noisy, READS))
        return await asyncio.gather(branch(), branch())

    keys = [event.step_key for event, _ in play(program, seed=1).journal if isinstance(event, StepFinished)]
    assert sorted(keys) == ["0/branch#1/look#1", "0/branch#2/look#1", "0/noisy#1"]


# ── errors ────────────────────────────────────────────────────────────────────────────────────────


class Odd(Exception):
    """An error that only its declaration makes known."""


@pytest.mark.parametrize("declared", [True, False])
def test_an_error_is_the_same_error_in_replay(declared: bool) -> None:
    async def program(world: World) -> Any:
        async def run(_key: str) -> Any:
            raise Odd("very")

        try:
            await world.drive.call(DurableCall("odd", [], run, READS, (Odd,) if declared else ()))
        except Odd as error:
            return ["odd", str(error)]
        except CallFailed as error:
            return ["failed", error.error_type, str(error)]

    first = play(program, seed=1)
    again = play(program, seed=2, journal=first.journal)
    assert first.output == again.output == (["odd", "very"] if declared else ["failed", "Odd", "Odd: very"])


def test_an_intent_comes_before_its_effect() -> None:
    events = [type(event) for event, _ in after_the_mail().journal[1:]]
    assert events == [StepFinished, ToolCalled, ToolReturned]
