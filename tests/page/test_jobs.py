"""The list of jobs: filters that are in the address, pages, and a word to many that says how many."""

from __future__ import annotations

from typing import Any

import pytest

from tests.page.conftest import STORES
from tests.page.processes import Town
from tests.page.user_actions import see, speak

ROWS = "main tbody tr"


def until_rows(page: Any, count: int) -> None:
    """So many jobs are shown, sooner or later."""
    page.wait_for_function(
        "([what, many]) => document.querySelectorAll(what).length === many", arg=[ROWS, count]
    )


def test_filters_are_in_the_address_and_narrow_the_list(town: Town, page: Any) -> None:
    for nth in range(3):
        town.submit("alpha", id=f"first-{nth}", queue="slow")
    town.submit("beta", id="second", input={"to": "ada"})
    page.goto(f"{town.url}/jobs")
    until_rows(page, 4)
    page.get_by_label("Search").fill("first-")
    page.wait_for_url("**/jobs?text=first-")
    until_rows(page, 3)
    page.get_by_label("Search").fill("")
    page.wait_for_url("**/jobs")
    page.get_by_label("Agent or kind").fill("beta")
    page.wait_for_url("**/jobs?kind=beta")
    until_rows(page, 1)
    page.reload()
    until_rows(page, 1)
    assert page.get_by_label("Agent or kind").input_value() == "beta", "the address says what is seen"
    page.get_by_label("Queue").fill("slow")
    see(page, "No job matches")
    page.get_by_role("link", name="Show all jobs").click()
    until_rows(page, 4)
    page.get_by_label("Since").select_option(index=1)
    until_rows(page, 4)
    page.get_by_label("Wait reason").select_option("approval")
    see(page, "No job matches")
    page.get_by_role("button", name="Show all", exact=True).click()
    until_rows(page, 4)
    page.go_back()
    see(page, "No job matches")


def test_pages_lead_to_older_jobs_and_back(town: Town, page: Any) -> None:
    """Each job is on one page, whatever comes meanwhile."""
    for nth in range(60):
        town.submit("alpha", id=f"job {nth:02}")
    page.goto(f"{town.url}/jobs")
    until_rows(page, 50)
    town.submit("alpha", id="the newest")
    see(page, "the newest")
    page.get_by_role("button", name="Older").click()
    see(page, "job 00")
    assert "cursor=" in page.url
    page.get_by_role("button", name="Newest").click()
    see(page, "the newest")


@pytest.mark.parametrize("store", STORES, indirect=True)
def test_many_are_cancelled_and_requeued_after_a_question_that_says_how_many(town: Town, page: Any) -> None:
    for nth in range(55):
        town.submit("nobody", id=f"idle {nth:02}")
    page.goto(f"{town.link}")
    see(page, "sign out")
    page.goto(f"{town.url}/jobs?kind=nobody")
    until_rows(page, 50)
    page.get_by_label("this page").check()
    page.get_by_role("button", name="select all that match").click()
    see(page, "55 jobs selected")
    page.get_by_role("button", name="Cancel 55").click()
    page.get_by_role("dialog").get_by_role("heading", name="Cancel 55 jobs?").wait_for()
    speak(page, why="nobody will ever take them")
    see(page, "Cancelled: 55 jobs.")
    assert town.get("/api/tally", kind="nobody")["by_status"] == {"cancelled": 55}
    town.worker()
    dead = [town.submit("hopeless") for _ in range(2)]
    for job_id in dead:
        town.until(job_id, lambda one: one["wait_reason"] == "dead_letter")
    (town.folder / "hope").touch()
    page.goto(f"{town.url}/jobs?wait_reason=dead_letter&status=waiting")
    until_rows(page, 2)
    page.locator("body").press("j")
    page.locator("body").press("x")
    see(page, "1 job selected")
    page.get_by_label("this page").check()
    page.get_by_role("button", name="Requeue 2").click()
    speak(page, why="there is hope")
    for job_id in dead:
        town.until(job_id, lambda one: one["status"] == "completed")
