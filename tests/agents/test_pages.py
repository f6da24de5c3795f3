"""The pages on models and sessions: their Python runs, as it stands."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path
from typing import Any

import pytest

import holdfast as hf
from holdfast.agents.models.script import read_script

DOCS = Path(__file__).parents[2] / "docs"
FENCE = re.compile(r"^```(\w+)\n(.*?)^```", re.MULTILINE | re.DOTALL)


def blocks(page: str, language: str) -> list[str]:
    found = FENCE.findall((DOCS / page).read_text(encoding="utf-8"))
    return [body for named, body in found if named == language]


@pytest.mark.store("memory")
def test_the_session_of_the_page_answers() -> None:
    names: dict[str, Any] = {}
    exec("\n".join(blocks("sessions.md", "python")), names)  # noqa: S102 - our own page
    assert asyncio.run(names["main"]()) == ["1 new, 1 turns so far", "Hello."]


@pytest.mark.store("memory")
def test_the_schedule_of_the_page_stands() -> None:
    names: dict[str, Any] = {}
    exec("\n".join(blocks("schedules.md", "python")), names)  # noqa: S102 - our own page

    async def look() -> list[tuple[str, Any]]:
        async with names["app"].running() as process:
            return [(one.cron, one.input) for one in await process.store.schedules.list()]

    assert asyncio.run(look()) == [("0 7 * * 1-5", {"topic": "kelp"})]


def test_the_models_of_the_page_are_there() -> None:
    names: dict[str, Any] = {}
    exec("\n".join(blocks("models.md", "python")), names)  # noqa: S102 - our own page
    reply = asyncio.run(names["llm"].ask([hf.user("Where is order 42?")]))
    assert [call.name for call in reply.calls] == ["lookup"]


def test_the_script_of_the_page_is_one(tmp_path: Path) -> None:
    (text,) = blocks("models.md", "toml")
    (tmp_path / "page.toml").write_text(text, encoding="utf-8")
    assert len(read_script(tmp_path / "page.toml").lines) == 3
