"""Every page with something on it, light and dark, wide and on a phone: WCAG 2.2 AA, and all of it by keyboard."""

from __future__ import annotations

from typing import Any

import pytest

from tests.page.accessible import broken_rules
from tests.page.browser_page import Watched
from tests.page.processes import Town

PHONE = {"width": 390, "height": 844}
OVERFLOWS = "() => document.documentElement.scrollWidth - document.documentElement.clientWidth"


def lived_in(town: Town) -> dict[str, str]:
    """A store in which something is done, something waits for a person, something sleeps, and somebody was talked to;
    and the addresses at which that is seen."""
    town.worker()
    done = town.submit("clerk", input={"to": "ada"})
    asks = town.submit("treasurer", input={"to": "ada", "cents": 4200})
    sleeps = town.submit("sleeper")
    said = town.post("/api/agents/gardener/message", {"text": "I am Ada."})
    town.until(done, lambda one: one["status"] == "completed")
    town.until(asks, lambda one: one["wait_reason"] == "approval")
    town.until(sleeps, lambda one: one["wait_reason"] == "timer")
    town.until(said["job_id"], lambda one: one["status"] == "completed")
    step = next(one for one in town.get(f"/api/jobs/{done}/trace")["spans"] if one["name"] == "mail")
    return {
        "/": "treasurer",
        "/jobs": "sleeper",
        "/jobs?status=completed": "clerk",
        f"/jobs/{done}": "completed",
        f"/jobs/{done}?view=table": "mail",
        f"/jobs/{done}?view=journal": "tool_called",
        f"/jobs/{done}?view=given": "ada",
        f"/jobs/{done}?step={step['step_key'].replace('#', '%23')}": "unsafe",
        f"/jobs/{asks}": "approval",
        "/jobs/nothing": "nothing",
        "/sessions": said["session_id"],
        f"/sessions/{said['session_id']}": "Good to hear from you.",
        "/agents": "gardener",
        "/dashboard": "Metrics",
        "/no/such/page": "Page not found",
    }


@pytest.mark.timeout(150)
def test_nothing_is_out_of_anybodys_reach(town: Town, watched: Watched) -> None:
    watched.forgive("status of 404")  # the job that is not there
    page = watched.page
    page.goto(town.link)
    found: list[str] = []
    for address, shown in lived_in(town).items():
        page.set_viewport_size({"width": 1280, "height": 900})
        page.goto(town.url + address)
        page.locator("main").get_by_text(shown).first.wait_for(state="attached")
        for scheme in ("light", "dark"):
            page.emulate_media(color_scheme=scheme)
            found += [f"{scheme}: {one}" for one in broken_rules(page)]
        page.set_viewport_size(PHONE)
        if page.evaluate(OVERFLOWS) > 0:
            found.append(f"{page.url} is wider than a phone by {page.evaluate(OVERFLOWS)}")
    assert not found, "\n".join(found)


def test_the_keyboard_is_enough(town: Town, page: Any) -> None:
    """To a job and back to what needs one, to its question, through it and out of it, without a mouse."""
    town.worker()
    asks = town.submit("treasurer", input={"to": "ada", "cents": 4200}, id="a payment")
    town.until(asks, lambda one: one["wait_reason"] == "approval")
    page.goto(town.link)
    page.get_by_text("a payment").first.wait_for()
    page.keyboard.press("g")
    page.keyboard.press("j")
    page.wait_for_url("**/jobs")
    page.get_by_role("link", name="a payment").wait_for()
    page.keyboard.press("j")
    page.keyboard.press("Enter")
    page.wait_for_url("**/jobs/a%20payment*")
    page.get_by_role("button", name="Approve").first.focus()
    page.keyboard.press("Enter")
    dialog = page.get_by_role("dialog")
    dialog.wait_for()
    assert page.evaluate(
        "() => document.querySelector('[role=dialog], dialog').contains(document.activeElement)"
    )
    page.keyboard.press("Escape")
    dialog.wait_for(state="detached")
    assert town.get("/api/jobs/a%20payment")["wait_reason"] == "approval", "thought better of it"
    page.get_by_role("button", name="Approve").first.focus()
    page.keyboard.press("Enter")
    dialog.get_by_label("Your name").fill("Ada")
    if dialog.get_by_label("Reason").count():
        dialog.get_by_label("Reason").fill("it is right")
    page.keyboard.press("Enter")
    assert town.until(asks, lambda one: one["status"] == "completed")["output"] == "paid 4200 to ada"
