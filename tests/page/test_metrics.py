"""Numbers: what was done, how the store is against its bounds, how fast this server is; for an hour or for a day."""

from __future__ import annotations

from typing import Any

from tests.page.accessible import assert_accessible
from tests.page.processes import Town
from tests.page.user_actions import see


def test_what_was_done_is_counted_and_drawn(town: Town, page: Any) -> None:
    town.worker()
    for to in ("ada", "bob"):
        job_id = town.submit("clerk", input={"to": to})
        town.until(job_id, lambda one: one["status"] == "completed")
    town.until(town.submit("secretary"), lambda one: one["status"] == "completed")
    page.goto(f"{town.url}/dashboard")
    see(page, "By agent")
    page.get_by_role("row", name="clerk 2 jobs").wait_for()
    page.get_by_role("row").filter(has_text="scripted").first.wait_for()
    see(page, "very slow")  # a bound of the alerts, beside the line that it is for
    page.locator(".charts canvas").nth(3).wait_for()
    assert_accessible(page)
    page.get_by_text("last day").click()
    page.wait_for_url("**/dashboard?**")
    page.reload()
    page.get_by_role("row", name="clerk 2 jobs").wait_for()
