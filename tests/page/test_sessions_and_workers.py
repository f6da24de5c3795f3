"""Sessions, workers, and who one is: a message is answered, what is queued is taken back, a worker is drained."""

from __future__ import annotations

from typing import Any

import pytest

from tests.page.browser_page import Watched
from tests.page.conftest import STORES
from tests.page.processes import PATIENCE_S, Town
from tests.page.user_actions import see, speak


@pytest.mark.parametrize("store", STORES, indirect=True)
def test_a_conversation(town: Town, page: Any) -> None:
    """Written without a worker it waits in the inbox and can be taken back; with one it is answered while one looks."""
    first = town.worker()
    said = town.post("/api/agents/gardener/message", {"text": "I am Ada."})
    town.until(said["job_id"], lambda one: one["status"] == "completed")
    town.kill(first)
    page.goto(town.link)
    see(page, "sign out")
    page.goto(f"{town.url}/sessions/{said['session_id']}")
    see(page, "Good to hear from you.")
    page.get_by_label("Message").fill("Never mind.")
    page.keyboard.press("Control+Enter")
    inbox = page.locator(".batch")
    inbox.get_by_text("Never mind.").wait_for()
    inbox.get_by_role("button", name="Cancel").click()
    speak(page)
    inbox.wait_for(state="detached")
    town.worker()
    page.get_by_label("Message").fill("What is my name?")
    page.get_by_role("button", name="Send").click()
    see(page, "The first thing you told me was: I am Ada.")


@pytest.mark.timeout(180)
@pytest.mark.parametrize("store", STORES, indirect=True)
def test_a_worker_is_drained_from_the_page(town: Town, page: Any) -> None:
    """It is another process, which hears of it with its next beat: it ends with status 0, its neighbour goes on, and
    the audit log knows who wanted it and why."""
    ending = town.worker("--name", "ending")
    town.worker("--name", "staying")
    page.goto(town.link)
    see(page, "sign out")
    page.goto(f"{town.url}/agents")
    card = page.locator("article.worker").filter(has_text="ending")
    card.get_by_role("button", name="Drain").click()
    speak(page, why="the machine is needed")
    card.get_by_text("drain requested").wait_for()
    assert ending.wait(2 * PATIENCE_S) == 0
    card.wait_for(state="detached")
    page.locator("article.worker").filter(has_text="staying").get_by_role("button", name="Drain").wait_for()
    (act,) = [one for one in town.get("/api/audit")["items"] if one["what"] == "worker.drain"]
    assert (act["object"], act["reason"], act["detail"]) == ("ending", "the machine is needed", "by Ada")
    job_id = town.submit("clerk", input={"to": "ada"})
    town.until(job_id, lambda one: one["status"] == "completed")


def test_one_signs_in_with_the_link_and_out_again(town: Town, watched: Watched) -> None:
    watched.forgive("401")
    page = watched.page
    page.goto(town.url)
    page.get_by_role("button", name="read only").click()
    page.get_by_role("dialog").get_by_label("API key").fill(town.link)
    page.get_by_role("button", name="Sign in").click()
    see(page, "sign out").click()
    see(page, "read only")


def test_a_server_that_goes_away_is_told_and_found_again(town: Town, watched: Watched) -> None:
    """What was last heard stays on the page, with a word that nobody answers."""
    for part in ("ERR_", "Failed to load"):
        watched.forgive(part)
    page = watched.page
    town.submit("nobody", id="a job that stays")
    page.goto(f"{town.url}/jobs")
    see(page, "a job that stays")
    town.kill(town.server)
    see(page, "no response")
    see(page, "a job that stays")
    town.serve(town.url.rpartition(":")[2])
    see(page, "live")
    town.submit("nobody", id="a job that comes")
    see(page, "a job that comes")


def test_keys_and_colours(town: Town, page: Any) -> None:
    page.goto(town.url)
    see(page, "There are no jobs yet")
    page.keyboard.press("?")
    page.get_by_role("dialog").get_by_text("go to Metrics").wait_for()
    page.keyboard.press("Escape")
    colour = "() => getComputedStyle(document.body).backgroundColor"
    page.emulate_media(color_scheme="light")
    light = page.evaluate(colour)
    page.keyboard.press("t")
    page.keyboard.press("t")
    page.wait_for_function(f"before => ({colour})() !== before", arg=light)
    for key, path in (("n", "/dashboard"), ("a", "/agents"), ("s", "/sessions"), ("j", "/jobs"), ("h", "/")):
        page.keyboard.press("g")
        page.keyboard.press(key)
        page.wait_for_url(town.url + path)
