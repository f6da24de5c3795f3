"""Questions to people: durable, typed, answered once, and deaf to what does not fit."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Any, Literal

import msgspec
import pydantic
import pytest

import holdfast as hf
from holdfast.client.in_process import EmbeddedClient
from holdfast.engine.replay_check import replay
from holdfast.errors import Conflict, InvalidMove, InvalidPayload, InvalidSetting, NotFound
from holdfast.model.events import JobClaimed, JobWaiting, QuestionAsked
from holdfast.model.ids import SequentialIds
from holdfast.model.states import MailKind, WaitReason
from holdfast.model.time import DAY, HOUR, SECOND
from holdfast.testing import survives_crashes
from holdfast.testing.conformance.harness import Backend
from tests.engine.shop import Shop, opened
from tests.support.fixtures.stores import STORES

on_every_store = pytest.mark.parametrize("backend", STORES, indirect=True)
on_memory = pytest.mark.parametrize("backend", ["memory"], indirect=True)


@dataclass
class Verdict:
    pay: bool
    cents: int = 0


class Choice(msgspec.Struct):
    colour: Literal["red", "blue"]
    count: int


class Address(pydantic.BaseModel):
    street: str
    number: int = pydantic.Field(gt=0)


@pytest.fixture
def app() -> hf.App:
    return hf.App(store="memory:")


async def submitted(shop: Shop, agent: hf.Agent[..., Any]) -> str:
    shop.programs[agent.name] = agent.program
    return (await shop.store.jobs.submit(agent.draft({}))).job_id


def client_of(shop: Shop) -> EmbeddedClient:
    return EmbeddedClient(shop.store, shop.clock, SequentialIds(9))


async def asked(shop: Shop, job_id: str) -> list[QuestionAsked]:
    return [event for event in await shop.events(job_id) if isinstance(event, QuestionAsked)]


@on_every_store
async def test_a_question_waits_for_its_answer(backend: Backend, app: hf.App) -> None:
    @app.agent
    async def program() -> str:
        fine = await hf.ask("Approve the refund?", to="ops", timeout="2d")
        return "paid" if fine else "refused"

    async with opened(backend) as shop:
        client = client_of(shop)
        job_id = await submitted(shop, program)
        assert await shop.drive_all() == ["waiting"]
        view = await client.get(job_id)
        assert view.wait_reason is WaitReason.APPROVAL
        (need,) = view.needs
        assert need.what == "Question for ops: Approve the refund?"
        assert need.person
        assert need.commands == (f"holdfast answer {job_id} --yes", f"holdfast answer {job_id} --no")
        assert need.due_at == (await asked(shop, job_id))[0].due_at
        assert [one.job_id for one in await client.waiting_for_person()] == [job_id]
        await client.answer(job_id, "yes", by="ada")
        assert (await client.get(job_id)).needs == ()
        assert await shop.drive_all() == ["completed"]
        assert (await shop.job(job_id)).output == "paid"
        assert len(await asked(shop, job_id)) == 1
        assert (await replay(shop.store, job_id, program.program, clock=shop.clock)).difference is None
        (span,) = (await client.trace(job_id)).spans
        assert (span.name, span.outcome) == ("Approve the refund?", "answered")


def test_every_crash_point_is_survived(app: hf.App) -> None:
    sent: list[str] = []

    @app.tool(effect="idempotent")
    async def send(text: str, *, key: hf.Key = hf.KEY) -> None:
        if key not in sent:
            sent.append(key)

    @app.agent
    async def program() -> str:
        verdict = await hf.ask("Pay?", schema=Verdict)
        await send("paid" if verdict.pay else "not paid")
        return f"{verdict.cents} cents"

    survival = survives_crashes(
        program, answers={"Pay?": {"pay": True, "cents": 7}}, effects=lambda: len(sent), reset=sent.clear
    )
    assert len(survival.points) > 10, "the question, the call and the end are cut off"
    assert len(sent) == 1


@on_memory
async def test_nobody_answers(backend: Backend, app: hf.App) -> None:
    """The time counts from the question, not from the last look; and a late answer is refused."""

    @app.agent
    async def program() -> str:
        try:
            await hf.ask("Anybody?", timeout="2d")
        except TimeoutError as error:
            return str(error)
        return "answered"

    async with opened(backend) as shop:
        client = client_of(shop)
        job_id = await submitted(shop, program)
        assert await shop.drive_all() == ["waiting"]
        shop.clock.advance(1 * DAY)
        await client.signal(job_id, "something-else")
        assert await shop.drive_all() == ["waiting"]
        shop.clock.advance(1 * DAY + 1 * HOUR)
        with pytest.raises(InvalidMove, match="the time to answer is over"):
            await client.answer(job_id, "yes")
        assert await shop.drive_all() == ["completed"]
        assert (await shop.job(job_id)).output == "no answer in time: Anybody?"
        assert (await replay(shop.store, job_id, program.program, clock=shop.clock)).difference is None


FITS: dict[str, tuple[Any, Any, Any, Any]] = {
    "yes or no": (bool, "no", False, "perhaps"),
    "text": (str, "42", "42", None),
    "a number": (int, "42", 42, "many"),
    "a choice": (Literal["red", "blue"], "blue", "blue", "green"),
    "a dataclass": (Verdict, '{"pay": true}', Verdict(True), '{"pay": "yes"}'),
    "a struct": (Choice, {"colour": "red", "count": 2}, Choice("red", 2), {"colour": "pink", "count": 2}),
    "a pydantic model": (
        Address,
        {"street": "x", "number": 1},
        Address(street="x", number=1),
        {"street": "x", "number": 0},
    ),
    "a list": (list[int], "[1, 2]", [1, 2], "[1, null]"),
    "perhaps nothing": (int | None, "null", None, "1.5"),
}


@pytest.mark.parametrize("kind", FITS)
@on_memory
async def test_an_answer_has_the_type_that_was_asked_for(backend: Backend, app: hf.App, kind: str) -> None:
    """What does not fit is refused at the door, and the job sleeps on; what fits arrives as its type."""
    schema, good, value, bad = FITS[kind]
    got: list[Any] = []

    @app.agent
    async def program() -> None:
        got.append(await hf.ask("What?", schema=schema))

    async with opened(backend) as shop:
        client = client_of(shop)
        job_id = await submitted(shop, program)
        assert await shop.drive_all() == ["waiting"]
        with pytest.raises(
            InvalidPayload, match=r"the answer does not match the schema of 'What\?': .+"
        ) as refused:
            await client.answer(job_id, bad)
        assert "The schema is: {" in refused.value.hint
        assert await shop.drive_all() == []
        await client.answer(job_id, good)
        assert await shop.drive_all() == ["completed"]
    assert got == [value]
    assert type(got[0]) is type(value)


@on_memory
async def test_what_comes_another_way_and_does_not_fit_is_passed_over(backend: Backend, app: hf.App) -> None:
    """A letter that nobody checked: the code hears nothing of it, now and in replay, and the question stays open."""
    heard: list[Any] = []

    @app.agent
    async def program() -> int:
        heard.append("asked")
        cents = await hf.ask("How much?", schema=int)
        heard.append(cents)
        return cents

    async with opened(backend) as shop:
        client = client_of(shop)
        job_id = await submitted(shop, program)
        assert await shop.drive_all() == ["waiting"]
        (question,) = await asked(shop, job_id)
        await shop.tell(job_id, MailKind.SIGNAL, "a lot", name=question.question_id)
        assert await shop.drive_all() == ["waiting"]
        assert [one.question_id for one in (await client.get(job_id)).needs] == [question.question_id]
        await client.answer(job_id, 5)
        assert await shop.drive_all() == ["completed"]
        assert heard == ["asked", "asked", "asked", 5]
        assert (await replay(shop.store, job_id, program.program, clock=shop.clock)).difference is None


@on_memory
async def test_only_one_answer_counts(backend: Backend, app: hf.App) -> None:
    @app.agent
    async def program() -> bool:
        fine = await hf.ask("Fine?")
        await hf.sleep("1h")
        return fine

    async with opened(backend) as shop:
        client = client_of(shop)
        job_id = await submitted(shop, program)
        assert await shop.drive_all() == ["waiting"]
        first = await client.answer(job_id, "yes", operation_id="op-1")
        assert not first.repeated
        assert (await client.answer(job_id, "yes", operation_id="op-1")).repeated
        with pytest.raises(Conflict, match="has been answered"):
            await client.answer(job_id, "no")
        assert await shop.drive_all() == ["waiting"]
        assert (await client.answer(job_id, "yes", operation_id="op-1")).repeated
        with pytest.raises(InvalidMove, match="it has been answered"):
            await client.answer(job_id, "no")
        shop.clock.advance(2 * HOUR)
        assert await shop.drive_all() == ["completed"]
        assert (await shop.job(job_id)).output is True


@on_memory
async def test_questions_side_by_side_are_named(backend: Backend, app: hf.App) -> None:
    @app.agent
    async def program() -> list[Any]:
        return list(await asyncio.gather(hf.ask("Colour?", schema=str), hf.ask("Count?", schema=int)))

    async with opened(backend) as shop:
        client = client_of(shop)
        job_id = await submitted(shop, program)
        assert await shop.drive_all() == ["waiting"]
        colour, count = await asked(shop, job_id)
        with pytest.raises(InvalidMove, match="has 2 open questions"):
            await client.answer(job_id, "red")
        with pytest.raises(NotFound, match="has no question 'ask_x'"):
            await client.answer(job_id, "red", question_id="ask_x")
        await client.answer(job_id, "3", question_id=count.question_id)
        assert await shop.drive_all() == ["waiting"]
        await client.answer(job_id, "red")
        assert await shop.drive_all() == ["completed"]
        assert (await shop.job(job_id)).output == ["red", 3]
        assert colour.question == "Colour?"
        assert (await replay(shop.store, job_id, program.program, clock=shop.clock)).difference is None


@on_memory
async def test_a_question_that_is_given_up_is_not_open(backend: Backend, app: hf.App) -> None:
    @app.tool(effect="read_only")
    async def endless() -> None:
        shop.clock.advance(SECOND)
        await asyncio.Event().wait()

    @app.agent
    async def program() -> None:
        try:
            async with asyncio.timeout(0.01):
                await asyncio.gather(hf.ask("Quick?"), endless())
        except TimeoutError:
            await hf.sleep("1h")

    async with opened(backend) as shop:
        client = client_of(shop)
        job_id = await submitted(shop, program)
        assert await shop.drive_all() == ["waiting"]
        assert [one.question_id for one in (await client.get(job_id)).needs] == [None]
        with pytest.raises(InvalidMove, match="does not wait for it any more"):
            await client.answer(job_id, "yes")


async def test_what_cannot_be_asked(app: hf.App) -> None:
    with pytest.raises(InvalidMove, match=r"hf\.ask outside a job"):
        await hf.ask("Hello?")


@on_memory
async def test_a_type_that_has_no_schema_is_refused(backend: Backend, app: hf.App) -> None:
    @app.agent
    async def program() -> str:
        try:
            await hf.ask("What?", schema=asyncio.Event)
        except InvalidSetting as error:
            return str(error)
        return "asked"

    async with opened(backend) as shop:
        job_id = await submitted(shop, program)
        assert await shop.drive_all() == ["completed"]
        assert "the answer has a type that JSON schema cannot express" in (await shop.job(job_id)).output
        kinds = {type(event) for event in await shop.events(job_id)}
        assert JobWaiting not in kinds
        assert JobClaimed in kinds
