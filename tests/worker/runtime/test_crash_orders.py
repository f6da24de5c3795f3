"""Crashes on order: what the environment may say, and what it means."""

from __future__ import annotations

from pathlib import Path

import pytest

from holdfast.engine.crash_points import Point, crash_points, ignore_point
from holdfast.errors import InvalidSetting
from holdfast.model.ids import RandomIds
from holdfast.model.jobs import JobDraft
from holdfast.runtime.crash_injection import add_crash_points, matches_tool, parse_points
from holdfast.runtime.process import open_process
from holdfast.store.clock import SystemClock
from holdfast.store.interceptor import InterceptedStore
from holdfast.store.memory.store import MemoryStore

BOTH = pytest.mark.parametrize("prefix", ["HOLDFAST_TEST_", "UA_TEST_"])


def deaths(environ: dict[str, str], *reached: tuple[Point, str]) -> list[str]:
    """Where the process would have died on its way past these points."""
    died: list[str] = []
    points = parse_points(environ, died.append)
    for point, tool in reached:
        points(point, tool)
    return died


async def deaths_at(environ: dict[str, str], jobs: int) -> list[str]:
    """Where it would have died while it submitted so many jobs, one by one."""
    died: list[str] = []
    store = add_crash_points(MemoryStore(SystemClock(), RandomIds()), environ, died.append)
    for number in range(jobs):
        await store.jobs.submit(JobDraft(kind="work", input=number))
        died.append(f"job {number + 1}")
    return died


EVERYWHERE = tuple((point, tool) for tool in ("look", "send_mail") for point in Point)


def test_nothing_ordered_costs_nothing() -> None:
    """Not a function that does nothing, but the very one that the engine knows to skip; and the store itself."""
    store = MemoryStore(SystemClock(), RandomIds())
    assert parse_points({}) is ignore_point
    assert add_crash_points(store, {}) is store
    assert parse_points({"HOLDFAST_TEST_CRASH_AT": "", "HOLDFAST_TEST_CRASH_AFTER_TOOL": ""}) is ignore_point


@BOTH
@pytest.mark.parametrize("name", ["CRASH_STAGE", "CRASH_AFTER_STAGE"])
@pytest.mark.parametrize("stage", Point)
def test_a_tool_at_each_stage(prefix: str, name: str, stage: Point) -> None:
    environ = {f"{prefix}CRASH_AFTER_TOOL": "send_mail", f"{prefix}{name}": str(stage)}
    assert deaths(environ, *EVERYWHERE) == [f"send_mail {stage}"]


def test_without_a_stage_it_is_right_after_success() -> None:
    assert deaths({"HOLDFAST_TEST_CRASH_AFTER_TOOL": "look"}, *EVERYWHERE) == [f"look {Point.AFTER_SUCCESS}"]


def test_a_stage_without_a_tool_orders_nothing() -> None:
    assert parse_points({"HOLDFAST_TEST_CRASH_STAGE": "before_intent"}) is ignore_point


@BOTH
def test_any_tool_at_the_nth_time(prefix: str) -> None:
    environ = {f"{prefix}CRASH_AT": "before_intent#2"}
    assert deaths(environ, *EVERYWHERE) == ["send_mail before_intent"]
    assert deaths({f"{prefix}CRASH_AT": "before_intent"}, *EVERYWHERE) == ["look before_intent"]


@BOTH
async def test_the_store_at_the_nth_time(prefix: str) -> None:
    before = await deaths_at({f"{prefix}CRASH_AT": "jobs.submit:before#2"}, 3)
    assert before == ["job 1", "jobs.submit:before", "job 2", "job 3"]
    after = await deaths_at({f"{prefix}CRASH_AT": "jobs.submit:after"}, 2)
    assert after == ["jobs.submit:after", "job 1", "job 2"]


async def test_a_point_around_an_effect_leaves_the_store_alone() -> None:
    """And a point of the store leaves effects alone."""
    store = MemoryStore(SystemClock(), RandomIds())
    assert add_crash_points(store, {"HOLDFAST_TEST_CRASH_AT": "before_intent"}) is store
    assert isinstance(
        add_crash_points(store, {"HOLDFAST_TEST_CRASH_AT": "jobs.submit:after"}), InterceptedStore
    )
    assert parse_points({"HOLDFAST_TEST_CRASH_AT": "jobs.submit:after"}) is ignore_point


def test_both_orders_hold() -> None:
    environ = {"HOLDFAST_TEST_CRASH_AFTER_TOOL": "look", "HOLDFAST_TEST_CRASH_AT": "before_intent#2"}
    assert deaths(environ, *EVERYWHERE) == [f"look {Point.AFTER_SUCCESS}", "send_mail before_intent"]


def test_every_listed_point_can_be_ordered() -> None:
    assert len(crash_points()) > 100
    for point in crash_points():
        environ = {"HOLDFAST_TEST_CRASH_AT": f"{point}#1"}
        store = MemoryStore(SystemClock(), RandomIds())
        assert (parse_points(environ) is ignore_point) == isinstance(
            add_crash_points(store, environ), InterceptedStore
        )


@pytest.mark.parametrize(
    "name, value, says, hint",
    [
        ("CRASH_STAGE", "after_lunch", "no crash point", "after_intent_before_call"),
        ("CRASH_MATCH", "fuzzy", "not known", "raw, slug, any"),
        ("CRASH_AT", "journal.append_mony:after", "no crash point", "journal.append_many:after"),
        ("CRASH_AT", "journal.append_many", "no crash point", "doctor --crash-points"),
        ("CRASH_AT", "before_intent#", "no number of times", "before_intent#3"),
        ("CRASH_AT", "before_intent#0", "no number of times", "before_intent#3"),
        ("CRASH_AT", "before_intent#-1", "no number of times", "before_intent#3"),
        ("CRASH_AT", "before_intent#two", "no number of times", "before_intent#3"),
    ],
)
def test_what_cannot_be_meant_is_refused(name: str, value: str, says: str, hint: str) -> None:
    environ = {"HOLDFAST_TEST_CRASH_AFTER_TOOL": "send_mail", f"HOLDFAST_TEST_{name}": value}
    with pytest.raises(InvalidSetting) as refused:
        parse_points(environ)
    assert says in str(refused.value)
    assert f"{value!r}" in str(refused.value)
    assert hint in refused.value.hint


async def test_a_process_with_a_wrong_order_does_not_open_its_store(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOLDFAST_TEST_CRASH_AT", "nowhere")
    with pytest.raises(InvalidSetting):
        await open_process({}, f"sqlite:///{tmp_path / 'store.db'}")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    "wanted, name, raw, slug",
    [
        ("send_mail", "send_mail", True, True),
        ("send_mail", "mcp__post__send_mail", True, True),
        ("mcp__post__send_mail", "send_mail", True, True),
        ("mcp__post__send_mail", "Send-Mail", False, True),
        ("send_mail", "Send_Mail", False, True),
        ("Send Mail", "send_mail", False, True),
        ("send-mail", "mcp__post__SEND_MAIL", False, True),
        ("send_mail", "send_mails", False, False),
        ("mail", "send_mail", False, False),
        ("send_mail", "mcp__post__look", False, False),
    ],
)
def test_how_names_are_compared(wanted: str, name: str, raw: bool, slug: bool) -> None:
    assert matches_tool(wanted, name, "raw") is raw
    assert matches_tool(wanted, name, "slug") is slug
    assert matches_tool(wanted, name, "any") is (raw or slug)
    for match, meant in (("raw", raw), ("slug", slug), ("any", raw or slug)):
        environ = {"HOLDFAST_TEST_CRASH_AFTER_TOOL": wanted, "HOLDFAST_TEST_CRASH_MATCH": match}
        assert bool(deaths(environ, (Point.AFTER_SUCCESS, name))) is meant
