"""What people say over HTTP: durable when it is answered, said once under its key, refused without a trace."""

from __future__ import annotations

from typing import Any

import pytest

from holdfast.engine.execution import Execution
from holdfast.engine.questions import Question, ask
from holdfast.model.states import WaitReason
from holdfast.testing.conformance.harness import Backend
from tests.api.client.job_states import Lives
from tests.api.server.api import api

pytestmark = pytest.mark.store("sqlite")


async def asks(drive: Execution, _: Any) -> Any:
    return await ask(drive, Question("Refund it?", {"type": "boolean"}), lambda said: isinstance(said, bool))


async def questioning(one: Lives) -> str:
    job_id = await one.submit(asks)
    assert await (await one.claim()).go() == "waiting"
    return job_id


# What brings the job there, what is said, and whether it is a fact at once.
WORDS: dict[str, tuple[Any, str, dict[str, Any], bool]] = {
    "stop": (Lives.sleeping, "/api/jobs/{}/stop", {"by": "ada", "why": "enough"}, True),
    "signal": (Lives.sleeping, "/api/jobs/{}/signal", {"name": "paid:42", "body": {"cents": 1}}, False),
    "answer": (questioning, "/api/jobs/{}/answer", {"answer": True, "by": "ada"}, False),
    "resume": (Lives.parked, "/api/jobs/{}/resume", {"choice": "accept", "by": "ada"}, False),
    "resume stalled": (Lives.stalled, "/api/jobs/{}/resume", {"by": "ada", "why": "repaired"}, False),
    "raise": (Lives.stopped, "/api/jobs/{}/raise", {"limits": {"tool_calls": 9}, "by": "ada"}, False),
    "reconcile": (
        Lives.uncertain,
        "/api/jobs/{}/steps/0%2Fpay%231/reconcile",
        {"decision": "happened", "why": "seen", "by": "ada", "result": "r-1"},
        False,
    ),
    "reconcile typed": (
        Lives.uncertain,
        "/api/jobs/{}/steps/0/pay%231/reconcile",
        {"decision": "skip", "why": "seen", "by": "ada"},
        False,
    ),
    "approve": (Lives.asking, "/api/approvals/{}/approve", {"by": "ada"}, False),
    "deny": (Lives.asking, "/api/approvals/{}/deny", {"by": "ada", "why": "no"}, False),
    "requeue": (Lives.dead, "/api/dead-letters/{}/requeue", {"by": "ada"}, True),
    "discard": (Lives.dead, "/api/dead-letters/{}/discard", {"by": "ada", "why": "old"}, True),
}


@pytest.mark.parametrize("name", WORDS)
async def test_a_word_is_said_once(backend: Backend, name: str) -> None:
    make, where, word, at_once = WORDS[name]
    async with api(backend) as web:
        job_id = await make(web.one)
        where = where.format(job_id)
        first = await web.ask("POST", where, word, idempotency_key="op-1")
        assert first.status_code == (200 if at_once else 202), first.text
        assert first.json() == {
            "job_id": job_id,
            "operation_id": "op-1",
            "at_once": at_once,
            "repeated": False,
        }
        said = await web.picture()
        again = await web.ask("POST", where, word | {"operation_id": "op-1"})
        assert again.json() == first.json() | {"repeated": True}
        assert again.headers["idempotency-replayed"] == "true"
        other = word | {"by": "bob"}
        await web.refused(409, "key_reused", "POST", where, other, idempotency_key="op-1")
        assert await web.picture() == said


@pytest.mark.parametrize("name", WORDS)
async def test_a_word_to_nobody_is_not_found(backend: Backend, name: str) -> None:
    _, where, word, _ = WORDS[name]
    async with api(backend) as web:
        await web.refused(404, "not_found", "POST", where.format("nobody"), word)


@pytest.mark.parametrize("name", [name for name in WORDS if name != "signal"])
async def test_a_word_to_a_job_that_is_over_is_refused(backend: Backend, name: str) -> None:
    _, where, word, _ = WORDS[name]
    async with api(backend) as web:
        job_id = await web.one.finished()
        before = await web.picture()
        response = await web.ask("POST", where.format(job_id), word)
        code = (
            "not_found"
            if name in {"reconcile", "reconcile typed", "answer", "approve", "deny"}
            else "invalid_move"
        )
        assert response.json()["code"] == code
        assert await web.picture() == before


async def test_two_ids_for_one_word_are_refused(backend: Backend) -> None:
    async with api(backend) as web:
        job_id = await web.one.sleeping()
        where, word = f"/api/jobs/{job_id}/stop", {"operation_id": "a"}
        await web.refused(422, "invalid_payload", "POST", where, word, idempotency_key="b")


async def test_what_waits_for_a_person_is_listed_in_pages(backend: Backend) -> None:
    async with api(backend) as web:
        one = web.one
        jobs = [await one.asking(), await one.dead(), await one.parked(), await one.stalled()]
        assert {need["job_id"] for need in (await web.get("/api/needs"))["items"]} == set(jobs)
        first = await web.get("/api/needs?limit=3")
        rest = await web.get(f"/api/needs?limit=3&cursor={first['next']}")
        assert [len(first["items"]), len(rest["items"]), rest["next"]] == [3, 1, None]
        assert {need["job_id"] for need in first["items"] + rest["items"]} == set(jobs)
        (approval,) = (await web.get("/api/approvals"))["items"]
        assert (approval["approval_id"], approval["job_id"]) == ("apr_1", jobs[0])
        (dead,) = (await web.get("/api/dead-letters"))["items"]
        assert (dead["reason"], dead["job_id"]) == (WaitReason.DEAD_LETTER, jobs[1])
        (stalled,) = [need for need in first["items"] + rest["items"] if need["reason"] == "stalled"]
        assert (stalled["job_id"], stalled["job_status"]) == (jobs[3], "waiting")
        assert stalled["evidence"]["tasks"][0]["at"].endswith(" in forgetful")
        await web.post("/api/approvals/apr_1/approve", {"by": "ada"})
        await web.refused(409, "conflict", "POST", "/api/approvals/apr_1/deny", {"by": "bob", "why": "no"})
        await web.refused(422, "invalid_payload", "GET", f"/api/approvals?cursor={first['next']}")


async def test_a_running_job_that_needs_a_person_is_listed(backend: Backend) -> None:
    """What the page shows: an open approval of a job that still reads something."""
    async with api(backend) as web, web.one.needing("approval") as (job_id, _):
        (need,) = (await web.get("/api/needs"))["items"]
        assert (need["job_id"], need["job_status"], need["tool"]) == (job_id, "running", "pay")
        assert (await web.get("/api/approvals"))["items"] == [need]


@pytest.mark.parametrize("word, decision", [("approve", "approved"), ("deny", "denied")])
async def test_a_yes_is_a_yes_and_a_no_is_a_no(backend: Backend, word: str, decision: str) -> None:
    async with api(backend) as web:
        job_id = await web.one.asking()
        await web.post(f"/api/approvals/apr_1/{word}", {"by": "ada", "why": "because"})
        (letter,) = await web.one.store.post.read(job_id)
        assert letter.body == {"approval_id": "apr_1", "decision": decision, "why": "because"}
        assert letter.sender == "ada"


async def test_an_answer_that_does_not_fit_is_refused(backend: Backend) -> None:
    async with api(backend) as web:
        job_id = await questioning(web.one)
        before = await web.picture()
        await web.refused(422, "invalid_payload", "POST", f"/api/jobs/{job_id}/answer", {"answer": 17})
        assert await web.picture() == before
        await web.post(f"/api/jobs/{job_id}/answer", {"answer": "yes"})
        assert await (await web.one.claim()).go() == "completed"
        assert (await web.get(f"/api/jobs/{job_id}"))["output"] is True


async def asks_twice(drive: Execution, _: Any) -> Any:
    fits = {"type": "boolean"}
    for question in ("Refund it?", "All of it?"):
        await ask(drive, Question(question, fits), lambda said: isinstance(said, bool))


async def test_an_answer_again_is_the_first_one_again(backend: Backend) -> None:
    """Also when the job has gone on and asks something else, and when it is over."""
    async with api(backend) as web:
        job_id = await web.one.submit(asks_twice)
        where, word = f"/api/jobs/{job_id}/answer", {"answer": "yes", "by": "ada"}
        for nth in range(2):
            assert await (await web.one.claim()).go() == "waiting"
            first = await web.ask("POST", where, word, idempotency_key=f"op-{nth}")
            assert (first.status_code, first.json()["repeated"]) == (202, False)
        assert await (await web.one.claim()).go() == "completed"
        said = await web.picture()
        for nth in range(2):
            again = await web.ask("POST", where, word, idempotency_key=f"op-{nth}")
            assert (again.status_code, again.json()["repeated"]) == (202, True)
            other = word | {"answer": False}
            await web.refused(409, "key_reused", "POST", where, other, idempotency_key=f"op-{nth}")
        assert await web.picture() == said
        late = await web.refused(409, "invalid_move", "POST", where, word, idempotency_key="op-9")
        assert "is not open" in late["detail"]


@pytest.mark.parametrize("word", ["approve", "deny"])
@pytest.mark.parametrize("by_job", [True, False])
async def test_a_yes_or_no_again_is_the_first_one_again(backend: Backend, word: str, *, by_job: bool) -> None:
    """Also when the job is over, and whether the approval or its job was named."""
    async with api(backend) as web:
        job_id = await web.one.asking()
        where = f"/api/approvals/{job_id if by_job else 'apr_1'}/{word}"
        first = await web.ask("POST", where, {"by": "ada"}, idempotency_key="op-1")
        assert (first.status_code, first.json()["repeated"]) == (202, False)
        assert (await web.post(f"/api/jobs/{job_id}/stop", {"by": "ada"}))["at_once"]
        said = await web.picture()
        again = await web.ask("POST", where, {"by": "ada"}, idempotency_key="op-1")
        assert (again.status_code, again.json()) == (202, first.json() | {"repeated": True})
        await web.refused(409, "key_reused", "POST", where, {"by": "bob"}, idempotency_key="op-1")
        other = where.replace(word, "deny" if word == "approve" else "approve")
        await web.refused(409, "key_reused", "POST", other, {"by": "ada"}, idempotency_key="op-1")
        assert await web.picture() == said
