"""An e-mail of which nobody knows whether it went out: settled from the page, and received once."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest

from holdfast.demo.outside import Outside
from tests.page.accessible import assert_accessible
from tests.page.conftest import STORES
from tests.page.processes import Town
from tests.page.user_actions import need, see, speak


@pytest.fixture
def outside() -> Iterator[tuple[Outside, str]]:
    """A receiver of e-mail with a count of its own, and where it listens."""
    one = Outside()
    _, smtp = one.open()
    yield one, smtp
    one.close()


@pytest.mark.parametrize("store", STORES, indirect=True)
def test_an_uncertain_mail_is_settled_from_the_page(
    town: Town, page: Any, outside: tuple[Outside, str]
) -> None:
    """The worker is killed when the mail is delivered and its sender is not told. The page asks, the journal names who,
    why and when, the waterfall shows the seam, and the receiver has counted one."""
    receiver, smtp = outside
    first = town.worker(HOLDFAST_UI_SMTP=smtp)
    receiver.moments["mail"] = lambda: town.kill(first)
    page.goto(town.link)
    job_id = town.submit("postman", input={"to": "ada@example.org"})
    first.wait()
    assert len(receiver.mails) == 1
    town.worker(HOLDFAST_UI_SMTP=smtp)
    before = town.until(job_id, lambda one: one["wait_reason"] == "reconcile")
    card = need(page, job_id)
    assert "ada@example.org" in card.inner_text(), "the exact arguments are there"
    assert_accessible(page)
    card.get_by_role("button", name="It happened").click()
    speak(page, why="it is in her inbox", result='"sent by hand"')
    job = town.until(job_id, lambda one: one["status"] == "completed")
    assert job["output"] == "sent by hand"
    see(page, "No job needs attention")
    events = town.get(f"/api/jobs/{job_id}/events")["items"]
    (word,) = [one for one in events if one["type"] == "tool_reconciled"]
    assert (word["body"]["by"], word["body"]["why"]) == ("Ada", "it is in her inbox")
    assert word["at"] >= before["changed_at"]
    assert job["claims"] >= 2
    page.goto(f"{town.url}/jobs/{job_id}")
    see(page, re.compile("took over"))
    see(page, re.compile("it is in her inbox"))
    assert len(receiver.mails) == 1, "and nothing was done twice"
