"""`holdfast answer`, and what `job`, `jobs` and `trace` show of questions and plans."""

from __future__ import annotations

from typing import Any

import pytest

import holdfast as hf
from tests.api.client.job_states import Lives
from tests.cli.conftest import CommandDesk

pytestmark = pytest.mark.store("sqlite")
BOTH = pytest.mark.parametrize("desk", ["sqlite", "postgres"], indirect=True)

app = hf.App(store="memory:")


@app.tool(effect="read_only")
async def look(what: str) -> str:
    if what == "bad":
        raise LookupError("no such page")
    return what.upper()


@app.agent
async def refunds(order: str) -> Any:
    """A plan with a failure in it, then a question."""
    plan = hf.Plan(
        [
            hf.Node("find", look, {"what": order}),
            hf.Node("price", look, {"what": "bad"}, after=["find"]),
            hf.Node("report", look, {"what": hf.Ref("price")}),
        ]
    )
    outcomes = await hf.execute(plan, on_failure="skip_dependents")
    fine = await hf.ask("Refund it?", to="ops", timeout="2d")
    return [outcomes["find"].value, fine]


@app.agent
async def colours() -> str:
    return str(await hf.ask("Which colour?", schema=str))


async def asking(lives: Lives, agent: hf.Agent[..., Any] = refunds) -> str:
    given = {"order": "A-1"} if agent is refunds else {}
    lives.programs[agent.name] = agent.program
    submitted = await lives.store.jobs.submit(agent.draft(given))
    assert await (await lives.claim(worker="ant")).go() == "waiting"
    return submitted.job_id


async def going_on(lives: Lives) -> list[str]:
    for agent in (refunds, colours):
        lives.programs[agent.name] = agent.program
    return await lives.go_on()


@BOTH
def test_the_question_is_shown_with_what_to_type(desk: CommandDesk) -> None:
    job_id = desk.live(asking)
    desk.columns(200)
    shown = desk.type("job", job_id).out
    assert "Needs a person: Question for ops: Refund it?" in shown
    assert f"holdfast answer {job_id} --yes" in shown
    assert f"holdfast answer {job_id} --no" in shown
    assert '{"type":"boolean"}' in shown
    assert "Question for ops: Refund it?" in desk.type("jobs", "--person").out
    assert "waiting: approval" in desk.type("jobs").out
    done = desk.type("answer", job_id, "--yes")
    assert (done.status, done.out) == (0, "")
    assert "answered: the job continues as soon as a worker claims it" in done.err
    assert desk.live(going_on, ago_us=0) == ["completed"]
    assert desk.type("job", job_id, "--json").json["output"] == ["A-1", True]
    life = desk.type("trace", job_id).out
    assert "Refund it?" in life
    assert "answered" in life
    assert "answer received" in life


def test_the_plan_is_shown_with_the_nodes_that_were_not_reached(desk: CommandDesk) -> None:
    job_id = desk.live(asking)
    desk.columns(200)
    assert (
        "1 of 3 nodes done (succeeded: find; failed: price; to come: report)" in desk.type("job", job_id).out
    )
    assert desk.type("answer", job_id, "no").status == 0
    assert desk.live(going_on, ago_us=0) == ["completed"]
    life = desk.type("trace", job_id)
    lines = [line.split() for line in life.out.splitlines()]
    assert ["plan:", "1", "of", "3", "done"] in lines
    assert ["find", "look", "succeeded"] in lines
    assert ["price", "look", "failed", "after", "find"] in lines
    assert ["report", "look", "not", "reached", "after", "price"] in lines
    (plan,) = desk.type("trace", job_id, "--json").json["plans"]
    assert [node["state"] for node in plan["nodes"]] == ["succeeded", "failed", "not reached"]


def test_an_answer_that_does_not_fit_is_refused(desk: CommandDesk) -> None:
    job_id = desk.live(asking)
    wrong = desk.type("answer", job_id, "perhaps")
    assert wrong.status == 2
    assert "the answer does not match the schema of 'Refund it?': it is not a boolean" in wrong.err
    assert 'The schema is: {"type":"boolean"}' in wrong.err
    (question,) = desk.type("job", job_id, "--json").json["needs"]
    raw = desk.type("signal", job_id, question["question_id"], "--data", "7")
    assert (raw.status, "it is not a boolean" in raw.err) == (2, True)
    assert desk.live(going_on, ago_us=0) == [], "nobody woke it"


def test_answers_of_every_form(desk: CommandDesk, tmp_path: Any) -> None:
    for words, heard in (("red", "red"), ("42", "42"), ("@file", "blue")):
        job_id = desk.live(lambda lives: asking(lives, colours))
        (tmp_path / "answer.json").write_text('"blue"')
        typed = f"@{tmp_path / 'answer.json'}" if words == "@file" else words
        assert desk.type("answer", job_id, typed).status == 0
        assert desk.live(going_on, ago_us=0) == ["completed"]
        assert desk.type("job", job_id, "--json").json["output"] == heard


def test_what_cannot_be_answered(desk: CommandDesk) -> None:
    asleep = desk.live(Lives.sleeping)
    job_id = desk.live(asking)
    assert desk.type("answer", job_id).status == 2
    assert desk.type("answer", job_id, "yes", "--no").status == 2
    assert desk.type("answer", job_id, "--yes", "--question", "ask_x").status == 3
    assert desk.type("answer", "job_none", "--yes").status == 3
    assert desk.type("answer", job_id, "--yes", "--operation-id", "op").status == 0
    assert "already received before" in desk.type("answer", job_id, "--yes", "--operation-id", "op").err
    assert desk.type("answer", job_id, "--no").status == 4
    nothing = desk.type("answer", asleep, "--yes")
    assert (nothing.status, "has no open question" in nothing.err) == (3, True)
