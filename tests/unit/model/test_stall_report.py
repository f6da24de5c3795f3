"""A stall report is read with the author's own lines first, whichever machine it comes from."""

from __future__ import annotations

from typing import Any

import pytest

from holdfast.model.stall_report import arrange_report, find_author_line, summarize_report

OWN = "/srv/shop/app.py:12 in refund"
DEEPER = "/srv/shop/mail.py:7 in wait_for_reply"
LIBRARY = "/srv/shop/.venv/lib/python3.12/site-packages/httpx/client.py:99 in send"
DEBIAN = "/usr/lib/python3/dist-packages/aiohttp/client.py:1 in get"
STANDARD = "/usr/lib/python3.12/asyncio/locks.py:213 in wait"
WINDOWS = r"C:\Python312\Lib\asyncio\locks.py:213 in wait"


@pytest.mark.parametrize(
    "stack, expected",
    [
        ([OWN, DEEPER], DEEPER),
        ([OWN, LIBRARY, STANDARD], OWN),
        ([OWN, DEBIAN], OWN),
        ([OWN, WINDOWS], OWN),
        ([LIBRARY, STANDARD], LIBRARY),
        ([STANDARD], STANDARD),
        (["/srv/lib/app.py:1 in work", STANDARD], "/srv/lib/app.py:1 in work"),
        ([], ""),
    ],
)
def test_the_innermost_line_of_the_author_is_where_a_task_stands(stack: list[str], expected: str) -> None:
    assert find_author_line(stack) == expected


def test_a_report_is_arranged_and_told_in_one_line() -> None:
    report = {"why": "its tasks wait for each other", "tasks": [{"task": "refund", "stack": [OWN, STANDARD]}]}
    assert arrange_report(report) == {
        "why": "its tasks wait for each other",
        "tasks": [{"task": "refund", "at": OWN, "stack": [OWN, STANDARD]}],
    }
    assert summarize_report(report) == f"its tasks wait for each other ({OWN})"


@pytest.mark.parametrize(
    "report", [None, 7, [], {}, {"why": "w", "tasks": 3}, {"why": "w", "tasks": [1, {}]}]
)
def test_what_cannot_be_read_is_left_out(report: Any) -> None:
    """A journal may come from another version: its reader shows what there is."""
    why = "w" if report and isinstance(report, dict) else ""
    assert arrange_report(report) == {"why": why, "tasks": []}
    assert summarize_report(report) == why
