"""Every button of what needs a person: pressed in a browser, heard by the job, kept in its journal with a reason."""

from __future__ import annotations

import re
from typing import Any

import pytest

from tests.page.accessible import assert_accessible
from tests.page.conftest import STORES
from tests.page.processes import Town
from tests.page.user_actions import need, see, speak

pytestmark = [pytest.mark.parametrize("store", STORES, indirect=True), pytest.mark.timeout(300)]
WHY = "because it is so"


def press(page: Any, job_id: str, button: str, **given: str) -> None:
    need(page, job_id).get_by_role("button", name=button, exact=True).click()
    speak(page, **({"why": WHY} | given))


def word_of(town: Town, job_id: str, kind: str) -> dict[str, Any]:
    """The one event of this type."""
    events = town.get(f"/api/jobs/{job_id}/events")["items"]
    (found,) = [one["body"] for one in events if one["type"] == kind]
    body: dict[str, Any] = found
    return body


def test_uncertain_calls(town: Town, page: Any) -> None:
    """Skipped, failed, sent again: the last one only when the first call cannot be under way any more."""
    (town.folder / "hold").touch()
    skipped, failed, again = (town.submit("careful", input={"to": to}) for to in ("ada", "bob", "eve"))
    town.worker()
    page.goto(town.link)
    for job_id in (skipped, failed, again):
        town.until(job_id, lambda one: one["wait_reason"] == "reconcile")
    (town.folder / "hold").unlink()
    late = need(page, again).get_by_role("button", name="It did not happen")
    assert late.is_disabled() or "is allowed in" not in need(page, again).inner_text()
    press(page, skipped, "Skip it")
    assert town.until(skipped, lambda one: one["status"] == "completed")["output"] == "it said None"
    press(page, failed, "Fail it")
    assert town.until(failed, lambda one: one["status"] == "completed")["output"] == "it failed"
    page.wait_for_function("one => !one.disabled", arg=late.element_handle(), timeout=60_000)
    press(page, again, "It did not happen")
    assert town.until(again, lambda one: one["status"] == "completed")["output"] == "it said sent to eve"
    for job_id, decision in ((skipped, "skip"), (failed, "fail"), (again, "not_happened")):
        word = word_of(town, job_id, "tool_reconciled")
        assert (word["decision"], word["by"], word["why"]) == (decision, "Ada", WHY)
    assert sorted(town.mails()) == [f"{to}: Dear friend" for to in ("ada", "bob", "eve", "eve")]
    see(page, "No job needs attention")


def test_a_no_and_an_answer(town: Town, page: Any) -> None:
    town.worker()
    denied = town.submit("treasurer", input={"to": "ada", "cents": 4200})
    asks = town.submit("painter")
    page.goto(town.link)
    assert "4200" in need(page, denied).inner_text()
    press(page, denied, "Deny")
    assert WHY in town.until(denied, lambda one: one["status"] == "completed")["output"]
    need(page, asks).get_by_role("button", name="Answer").click()
    speak(page, answer='"blue"')
    assert town.until(asks, lambda one: one["status"] == "completed")["output"] == "painted blue"


def test_parked_jobs(town: Town, page: Any) -> None:
    """Code that sends another letter than the one on record: accepted, gone on with when the code is back, given up."""
    first = town.worker()
    jobs = [town.submit("changeling") for _ in range(3)]
    for job_id in jobs:
        town.until(job_id, lambda one: one["wait_reason"] == "signal")
    town.kill(first)
    changed = town.folder / "changed"
    changed.touch()
    second = town.worker()
    for job_id in jobs:
        town.post(f"/api/jobs/{job_id}/signal", {"name": "go", "by": "test"})
    page.goto(town.link)
    accepted, resumed, cancelled = jobs
    for job_id in jobs:
        card = need(page, job_id)
        see(card, "Recorded")
        see(card, "Attempted")
    assert_accessible(page)
    press(page, cancelled, "Cancel the job")
    town.until(cancelled, lambda one: one["status"] == "cancelled")
    press(page, accepted, "Accept the change")
    town.until(accepted, lambda one: one["status"] == "completed")
    town.kill(second)
    changed.unlink()
    town.worker()
    press(page, resumed, "Continue")
    assert town.until(resumed, lambda one: one["status"] == "completed")["output"] == "sent to ada"
    assert town.mails().count("ada: from the changeling") == 3, "none was sent again"
    assert town.mails().count("eve: from the changeling") == 1, "by the one whose drift was accepted"


def test_stalled_jobs(town: Town, page: Any) -> None:
    """Code that waits for a reply that never comes: shown with its line, gone on with when it is there, given up."""
    town.worker()
    resumed, cancelled = town.submit("forgetful"), town.submit("forgetful")
    page.goto(town.link)
    for job_id in (resumed, cancelled):
        town.until(job_id, lambda one: one["wait_reason"] == "stalled")
        see(need(page, job_id), "in wait_for_reply")
    assert_accessible(page)
    press(page, cancelled, "Cancel the job")
    town.until(cancelled, lambda one: one["status"] == "cancelled")
    (town.folder / "reply").touch()
    press(page, resumed, "Continue")
    assert town.until(resumed, lambda one: one["status"] == "completed")["output"] == "the desk is tidy"
    see(page, "No job needs attention")


def test_a_job_that_asks_while_it_runs(town: Town, page: Any) -> None:
    """A question beside a long read is on the page, and is answered there."""
    town.worker()
    job_id = town.submit("busy")
    page.goto(town.link)
    see(need(page, job_id), "job is running")
    need(page, job_id).get_by_role("button", name="Answer").click()
    speak(page, answer='"blue"')
    see(page, "No job needs attention")
    (town.folder / "done").touch()
    assert town.until(job_id, lambda one: one["status"] == "completed")["output"] == "browsed, blue"


def test_a_budget_is_raised(town: Town, page: Any) -> None:
    town.worker()
    parent = town.submit("employer")
    page.goto(town.link)
    town.until(parent, lambda one: one["wait_reason"] == "child")
    (child,) = town.get("/api/jobs", parent_job_id=parent)["items"]
    need(page, child["job_id"]).get_by_role("button", name="Raise the budget").click()
    speak(page, tool_calls="5", why=WHY)
    done = town.until(parent, lambda one: one["status"] == "completed")
    assert done["output"] == "the desk is tidy, the shelf is tidy"
    assert word_of(town, child["job_id"], "budget_raised")["by"] == "Ada"


def test_dead_letters(town: Town, page: Any) -> None:
    town.worker()
    again, enough = town.submit("hopeless"), town.submit("hopeless")
    page.goto(town.link)
    for job_id in (again, enough):
        town.until(job_id, lambda one: one["wait_reason"] == "dead_letter")
        see(need(page, job_id), re.compile("this never works"))
    (town.folder / "hope").touch()
    press(page, again, "Requeue")
    assert town.until(again, lambda one: one["status"] == "completed")["output"] == "it works after all"
    press(page, enough, "Discard")
    assert town.until(enough, lambda one: one["status"] == "cancelled")["cancelled_why"] == WHY
    see(page, "No job needs attention")
