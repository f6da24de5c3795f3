"""One job: its views, its past, words to it, what one takes away of it, and a fork."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from tests.page.accessible import assert_accessible
from tests.page.conftest import STORES
from tests.page.processes import Town
from tests.page.user_actions import need, see, speak


def row(page: Any, name: str) -> Any:
    """The row of the waterfall with this name."""
    return page.get_by_role("treeitem").filter(has=page.locator(".name", has_text=name)).first


def test_the_traceback_of_a_failure_is_in_sight(town: Town, page: Any) -> None:
    """Where the code raised, with its line: on the card without a click, at each failed attempt, at the step."""
    town.worker()
    job_id = town.submit("broken")
    town.until(job_id, lambda one: one["wait_reason"] == "dead_letter")
    page.goto(town.url)
    frames = re.compile(
        r"in broken.*in add_up.*in find_price\s+return PRICES\[item\]\s+KeyError: 'coffee'", re.DOTALL
    )
    need(page, job_id).locator(".traceback pre").filter(has_text=frames).wait_for()
    page.goto(f"{town.url}/jobs/{job_id}")
    page.locator("article.need .traceback pre").filter(has_text=frames).wait_for()
    pane = page.get_by_label("Selected step")
    see(page.get_by_label("Recovery"), re.compile(r"3 attempts failed; \d calls made again\."))
    row(page, "attempt 1 failed").click()
    pane.locator(".traceback pre").filter(has_text=frames).wait_for()
    row(page, "add_up").click()
    pane.locator(".traceback pre").filter(has_text="return PRICES[item]").wait_for()
    assert_accessible(page)


def test_views_and_the_past(town: Town, page: Any) -> None:
    town.worker()
    job_id = town.submit("clerk", input={"to": "ada"})
    town.until(job_id, lambda one: one["status"] == "completed")
    page.goto(f"{town.url}/jobs/{job_id}")
    row(page, "mail").click()
    pane = page.get_by_label("Selected step")
    see(pane, "unsafe")
    see(pane, "idempotency key")
    see(pane, "Dear friend")
    assert "step=" in page.url
    page.get_by_role("treeitem", name=re.compile("looking")).get_by_role("button", name="Fold").first.click()
    page.get_by_role("treeitem").filter(has_text="tidy").first.wait_for(state="detached")
    page.wait_for_url(re.compile("folded="))
    page.reload()
    row(page, "mail").wait_for()
    assert not page.get_by_role("treeitem").filter(has_text="tidy").count(), "the address says what is folded"
    page.keyboard.press("f")
    row(page, "tidy").wait_for()
    page.keyboard.press("+")
    page.get_by_role("button", name="Earlier").wait_for()
    page.wait_for_url(re.compile("zoom="))
    page.reload()
    page.get_by_role("button", name="Earlier").wait_for()
    page.keyboard.press("0")
    page.get_by_role("button", name="Earlier").wait_for(state="detached")
    last = town.get(f"/api/jobs/{job_id}")["events"]
    page.keyboard.press("[")
    page.wait_for_url(re.compile(rf"seq={last - 1}\b"))
    see(page, re.compile(f"{last - 1} of {last}"))
    page.reload()
    see(page, re.compile(f"{last - 1} of {last}"))
    page.keyboard.press("]")
    see(page, re.compile(f"{last} of {last}"))
    page.get_by_role("link", name="Table").click()
    page.locator("main table").get_by_text("mail").first.wait_for()
    page.get_by_role("link", name="Journal").click()
    see(page, re.compile("hash chain intact"))
    page.get_by_role("button", name="Verify again").click()
    see(page, re.compile("hash chain intact"))
    page.get_by_role("button", name="1", exact=True).click()
    page.wait_for_url(re.compile("seq=1"))
    page.get_by_role("link", name="Input and output").click()
    see(page, "the desk is tidy, the shelf is tidy, sent to ada")


def test_a_plan_is_a_graph(town: Town, page: Any) -> None:
    town.worker()
    job_id = town.submit("builder")
    town.until(job_id, lambda one: one["status"] == "completed")
    page.goto(f"{town.url}/jobs/{job_id}")
    see(page, re.compile("3 of 3 done"))
    assert_accessible(page)
    node = page.get_by_role("button", name=re.compile("^left: tidy, succeeded, after ground"))
    node.press("Enter")
    page.wait_for_url(re.compile("step=node"))
    assert page.evaluate("() => document.activeElement.getAttribute('role')") == "button", "it has the focus"


@pytest.mark.parametrize("store", STORES, indirect=True)
def test_a_signal_and_what_one_takes_away(town: Town, page: Any) -> None:
    town.worker()
    job_id = town.submit("listener")
    town.until(job_id, lambda one: one["wait_reason"] == "signal")
    page.goto(town.link)
    see(page, "sign out")
    page.goto(f"{town.url}/jobs/{job_id}")
    page.get_by_role("button", name="Signal", exact=True).click()
    speak(page, name="paid", data='{"cents": 9007199254740993}')
    done = town.until(job_id, lambda one: one["status"] == "completed")
    assert "9007199254740993" in done["output"], "digit by digit"
    with page.expect_download() as kept:
        page.get_by_role("button", name="Export", exact=True).click()
    lines = [json.loads(line) for line in kept.value.path().read_text().splitlines()]
    assert job_id in json.dumps(lines[0])
    with page.expect_download() as kept:
        page.get_by_role("button", name="Export (signed)").click()
    assert kept.value.path().read_bytes().startswith(b"PK")
    page.get_by_role("link", name="Jobs of this kind").click()
    page.wait_for_url("**/jobs?kind=listener")


@pytest.mark.parametrize("store", STORES, indirect=True)
def test_a_fork_from_a_step_with_another_input(town: Town, page: Any) -> None:
    """It is said before what would be reused; the reads are, and the letter goes to somebody else."""
    town.worker()
    job_id = town.submit("clerk", input={"to": "ada"})
    town.until(job_id, lambda one: one["status"] == "completed")
    page.goto(town.link)
    see(page, "sign out")
    page.goto(f"{town.url}/jobs/{job_id}")
    row(page, "mail").click()
    page.get_by_role("button", name="Fork from here").click()
    dialog = page.get_by_role("dialog")
    see(dialog, re.compile("2 recorded results are reused without a call"))
    see(dialog, re.compile("1 call of this job would be made again"))
    see(dialog, re.compile("1 side effect among them"))
    speak(page, input='{"to": "bob"}')
    page.wait_for_url(lambda url: job_id not in url)
    fork = page.url.rpartition("/")[2]
    done = town.until(fork, lambda one: one["status"] == "completed")
    assert done["output"] == "the desk is tidy, the shelf is tidy, sent to bob"
    assert town.mails() == ["ada: Dear friend", "bob: Dear friend"]
    tidied = [one for one in town.get(f"/api/jobs/{fork}/events")["items"] if one["type"] == "step_finished"]
    assert len(tidied) == 2, "they were taken over and not made again"


@pytest.mark.parametrize("store", STORES, indirect=True)
def test_a_fork_with_other_arguments_of_a_tool(town: Town, page: Any) -> None:
    """They are in the model's answer, and are changed there: the letter goes to somebody else, the model is not asked
    again for what it said, and the fork says whose words these are."""
    town.worker()
    job_id = town.submit("secretary")
    town.until(job_id, lambda one: one["status"] == "completed")
    page.goto(town.link)
    see(page, "sign out")
    page.goto(f"{town.url}/jobs/{job_id}")
    row(page, "scripted").click()
    see(page.locator(".job-head"), "unknown")  # no price is known: not $0
    see(page.get_by_label("Selected step"), re.compile("tokens, cost unknown"))
    assert page.get_by_role("treeitem").filter(has_text=re.compile("run_tools|call-0")).count() == 0
    page.get_by_role("button", name="Fork with another answer").click()
    answer = page.locator("#field-result").input_value()
    assert '"ada"' in answer
    speak(page, result=answer.replace('"ada"', '"bob"'), why="what if it was Bob")
    page.wait_for_url(lambda url: job_id not in url)
    fork = page.url.rpartition("/")[2]
    done = town.until(fork, lambda one: one["status"] == "completed")
    assert "sent to bob" in done["output"]
    assert town.mails() == ["ada: Dear friend", "bob: Dear friend"]
    see(page, re.compile(f"forked from {job_id}"))
    row(page, "scripted").click()
    see(
        page.get_by_label("Selected step"),
        re.compile("Result replaced by Ada for this fork.*what if it was Bob"),
    )
    created = town.get(f"/api/jobs/{fork}/events")["items"][0]["body"]
    assert created["edited"]["by"] == "Ada"
