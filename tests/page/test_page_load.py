"""The page opens, shows what happens as it happens, and writes for whoever came with the token."""

from __future__ import annotations

from typing import Any

import pytest

from tests.page.accessible import assert_accessible
from tests.page.browser_page import Watched
from tests.page.conftest import STORES
from tests.page.processes import Town
from tests.page.user_actions import see, speak

PAGES = {
    "/": "Needs attention",
    "/jobs": "Jobs",
    "/sessions": "Sessions",
    "/agents": "Agents",
    "/dashboard": "Metrics",
}


@pytest.mark.parametrize("path", PAGES)
def test_every_page_opens_anew_at_its_address(town: Town, page: Any, path: str) -> None:
    page.goto(town.url + path)
    page.get_by_role("heading", level=1, name=PAGES[path]).wait_for()
    assert page.title().endswith("Holdfast")
    assert_accessible(page)


@pytest.mark.parametrize("store", STORES, indirect=True)
def test_a_job_appears_while_one_looks(town: Town, page: Any) -> None:
    page.goto(f"{town.url}/jobs")
    see(page, "There are no jobs yet")
    job_id = town.submit("clerk", input={"to": "ada"}, id="a job/with a slash")
    see(page, "pending")
    town.worker()
    see(page, "completed")
    page.get_by_role("link", name="a job/with a slash").first.click()
    page.wait_for_url(f"{town.url}/jobs/a%20job%2Fwith%20a%20slash*")
    page.get_by_role("heading", level=1).wait_for()
    page.reload()
    see(page, "completed")
    assert town.get(f"/api/jobs/{'a%20job%2Fwith%20a%20slash'}")["job_id"] == job_id
    assert town.mails() == ["ada: Dear friend"]


def test_the_link_lets_one_write_and_its_token_is_gone(town: Town, watched: Watched) -> None:
    """Not in the address, not in what is asked of the server, not after one has gone elsewhere and back."""
    page, token = watched.page, town.link.partition("#token=")[2]
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    page.goto(town.link)
    see(page, "sign out")
    assert page.url == f"{town.url}/"
    job_id = town.submit("sleeper")
    page.goto(f"{town.url}/jobs/{job_id}")
    page.get_by_role("button", name="Cancel job", exact=True).click()
    speak(page, why="it is enough")
    see(page, "cancelled")
    job = town.until(job_id, lambda one: one["status"] == "cancelled")
    assert job["cancelled_why"] == "it is enough"
    page.go_back()
    assert token not in page.url
    assert not [url for url in asked if token in url]
    assert page.evaluate("document.cookie") == ""
    assert page.context.cookies() == []


def test_without_the_token_one_looks_and_does_not_write(town: Town, watched: Watched) -> None:
    job_id = town.submit("sleeper")
    page = watched.page
    page.goto(f"{town.url}/jobs/{job_id}")
    see(page, "read only")
    see(page, "pending")
    assert town.get(f"/api/jobs/{job_id}")["status"] == "pending"
