"""`holdfast jobs`, `job`, `trace`, `verify`, `dead list`, `doctor --crash-points`: what is on the screen."""

from __future__ import annotations

import re

import click
import pytest

from holdfast.engine.crash_points import crash_points
from holdfast.model.time import SECOND
from tests.api.client.job_states import Lives
from tests.cli.conftest import CommandDesk
from tests.support.project import ROOT

pytestmark = pytest.mark.store("sqlite")
BOTH = pytest.mark.parametrize("desk", ["sqlite", "postgres"], indirect=True)
NASTY = "\x1b[31mred\x1b[0m \x1b]0;title\x07 \x9b2J [bold]x[/bold] [/nope] \u202eabc \ud800\nsecond line"


async def _several(one: Lives) -> dict[str, str]:
    return {
        "finished": await one.finished(),
        "dead": await one.dead(),
        "asking": await one.asking(),
        "sleeping": await one.sleeping(),
    }


# ── jobs ──────────────────────────────────────────────────────────────────────────────────────────


@BOTH
def test_jobs_are_listed_with_their_states(desk: CommandDesk) -> None:
    ids = desk.live(_several)
    done = desk.type("jobs")
    lines = done.out.splitlines()
    assert (done.status, len(lines), lines[0].split()) == (0, 5, ["job", "kind", "state", "age", "events"])
    assert all(job_id in done.out for job_id in ids.values()), (
        "ids are never cut: they are what one types next"
    )
    (dead,) = [line for line in lines if ids["dead"] in line]
    assert "waiting: dead letter" in dead


def test_jobs_can_be_chosen(desk: CommandDesk) -> None:
    ids = desk.live(_several)

    def chosen(*options: str) -> set[str]:
        return {line["job_id"] for line in desk.type("jobs", "--json", *options).lines}

    assert chosen() == set(ids.values())
    assert chosen("--status", "COMPLETED") == {ids["finished"]}
    assert chosen("--reason", "dead-letter") == {ids["dead"]}
    assert chosen("--kind", "refund") == {ids["asking"]}
    assert chosen("--kind", "other") == set()
    first = desk.type("jobs", "--json", "--limit", "3")
    cursor = first.err.split("--cursor ")[1].strip()
    rest = desk.type("jobs", "--json", "--cursor", cursor)
    assert len(first.lines) == 3
    assert {line["job_id"] for line in (*first.lines, *rest.lines)} == set(ids.values())


def test_an_empty_store_says_so_and_prints_nothing(desk: CommandDesk) -> None:
    desk.live(_nothing)
    for arguments in (("jobs",), ("jobs", "--json"), ("jobs", "--person"), ("dead", "list")):
        done = desk.type(*arguments)
        assert (done.status, done.out) == (0, "")
        assert done.err or "--json" in arguments


async def _nothing(_one: Lives) -> None:
    pass


def test_what_waits_for_a_person_is_one_list(desk: CommandDesk) -> None:
    ids = desk.live(_several)
    done = desk.type("jobs", "--person")
    assert f"holdfast job {ids['dead']}" in done.out
    assert f"holdfast job {ids['asking']}" in done.out
    assert ids["sleeping"] not in done.out
    assert {line["reason"] for line in desk.type("jobs", "--person", "--json").lines} == {
        "dead_letter",
        "approval",
    }


# ── job ───────────────────────────────────────────────────────────────────────────────────────────


@BOTH
def test_an_uncertain_call_is_shown_with_all_one_needs_to_decide(desk: CommandDesk) -> None:
    job_id = desk.live(Lives.uncertain, ago_us=40 * SECOND)
    done = desk.type("job", job_id)
    assert done.status == 0
    for said in (
        "waiting: reconcile",
        "Needs a person: Outcome unknown: pay",
        '{"cents":4200,"found":"ORDER","order":"A-1"}',
        "unsafe to repeat and cannot be looked up",
        "key         hf_",
        f"holdfast reconcile {job_id} '0/pay#1' --happened --result @file --why '…'",
        "allowed after",
        "To let Holdfast recover this call by itself",
        'effect="idempotent"  sent again',
        f"holdfast trace {job_id}",
    ):
        assert said in done.out, said
    view = desk.type("job", job_id, "--json").json
    assert (view["status"], view["wait_reason"]) == ("waiting", "reconcile")
    assert view["needs"][0]["args"] == {"cents": 4200, "found": "ORDER", "order": "A-1"}


def test_each_state_says_how_to_go_on(desk: CommandDesk) -> None:
    ids = desk.live(_several) | {"parked": desk.live(Lives.parked)}
    said = {name: desk.type("job", job_id).out for name, job_id in ids.items()}
    assert f"holdfast dead requeue {ids['dead']}" in said["dead"]
    assert "LookupError: no such page" in said["dead"]
    assert "holdfast approve apr_1" in said["asking"]
    assert f"holdfast resume {ids['parked']} --accept" in said["parked"]
    assert "0/pay#1 arguments" in said["parked"]
    assert '0/pay_out#1 {"order":"A-1"}' in said["parked"]
    assert "Waits for a timer" in said["sleeping"]
    assert '{"sent":{"receipt":1},"then":"AFTER"}' in said["finished"]
    assert "claims      3, last by bee" in said["finished"]


def test_a_cancelled_job_says_who_and_why(desk: CommandDesk) -> None:
    job_id = desk.live(Lives.sleeping)
    desk.type("cancel", job_id, "--why", "ordered twice")
    assert "cancel      requested by ada: ordered twice" in desk.type("job", job_id).out


@pytest.mark.parametrize("width", [40, 80, 120])
def test_foreign_text_does_not_drive_the_terminal(desk: CommandDesk, width: int) -> None:
    """Control sequences, markup, bidi, lone surrogates in input, reason and signal; on every screen, at any width."""

    async def nasty(one: Lives) -> str:
        job_id = await one.submit(one.hopeless, {NASTY: [NASTY]})
        await one.go_on()
        return job_id

    job_id = desk.live(nasty)
    desk.columns(width)
    desk.type("dead", "requeue", job_id, "--why", NASTY)
    desk.type("cancel", job_id, "--why", NASTY)
    for arguments in (
        ("jobs",),
        ("job", job_id),
        ("trace", job_id),
        ("trace", job_id, "--events"),
        ("jobs", "--person"),
        ("job", job_id, "--json"),
        ("trace", job_id, "--json"),
        ("trace", job_id, "--events", "--json"),
        ("job", f"job_{NASTY}"),
    ):
        done = desk.type(*arguments)
        assert done.status == (2 if NASTY in arguments[-1] else 0)
        for bad in ("\x1b", "\x9b", "\x07", "\u202e", "\ud800"):
            assert bad not in done.out + done.err, (arguments, bad)
    assert "[bold]x[/bold] [/nope]" in desk.type("trace", job_id, "--json").out, "brackets are just brackets"
    assert desk.type("job", job_id, "--json").json["input"] == {NASTY: [NASTY]}, "JSON keeps the data whole"


# ── trace ─────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("width", [60, 80, 120, 200])
def test_a_timeline_fits_its_terminal(desk: CommandDesk, width: int) -> None:
    job_id = desk.live(Lives.finished)
    desk.columns(width)
    done = desk.type("trace", job_id)
    lines = done.out.splitlines()
    assert done.status == 0
    assert max(map(len, lines)) <= width, max(lines, key=len)
    text = " ".join(done.out.split())
    for said in (
        "research#1",
        "claimed by ant",
        "bee took over from ant",
        "The lease of ant had expired; 2 recorded outcomes were replayed, not called again.",
        "send_report was sent again under the same key: it is idempotent",
        "waiting: timer",
    ):
        assert said in text, said
    (mail,) = [line for line in lines if "━" in line and "send" in line]
    assert mail.count("┣") == 2, "two intents"
    assert "succeeded ×2 idempotent" in mail, "the outcome is never pushed off the screen"
    (nap,) = [line for line in lines if "━" in line and "sleep" in line]
    assert nap.index("━") >= mail.rindex("━") - 1, "the nap begins where the mail ends"


def test_a_timeline_is_in_the_order_of_the_journal(desk: CommandDesk) -> None:
    """Lines stand where their events stand: what recovery did is told after the takeover, not before it."""
    desk.columns(200)
    lines = desk.type("trace", desk.live(Lives.finished)).out.splitlines()
    (over,) = [nth for nth, line in enumerate(lines) if "bee took over from ant" in line]
    (sent,) = [nth for nth, line in enumerate(lines) if "was sent again under the same key" in line]
    (slept,) = [nth for nth, line in enumerate(lines) if "sleep#1" in line]
    assert over < sent < slept


def test_the_attempts_of_a_job_are_numbered(desk: CommandDesk) -> None:
    shown = desk.type("trace", desk.live(Lives.dead)).out
    assert "attempt 1 failed: LookupError: no such page" in shown
    assert "attempt 2 failed: LookupError: no such page" in shown
    assert "(attempt 2)" in shown
    assert "(attempt 3)" in shown


def test_step_keys_are_listed_for_the_commands_that_take_one(desk: CommandDesk) -> None:
    job_id = desk.live(Lives.finished)
    listed = [line["step"] for line in desk.type("trace", job_id, "--steps", "--json").lines]
    assert "0/send_report#1" in listed
    assert "send_report#1" in desk.type("trace", job_id).out, "and the timeline shows the end of each"


def test_only_reasons_that_a_job_can_have_are_offered(desk: CommandDesk) -> None:
    """A suspect is ready: no job waits for that reason, and asking for it would show nothing for ever."""
    desk.live(_nothing)
    refused = desk.type("jobs", "--reason", "suspect")
    assert (refused.status, "'suspect' is not a wait reason" in refused.err) == (2, True)
    assert "suspect" not in desk.type("jobs", "--help").out


@pytest.mark.parametrize(
    "typed, meant", [("workers", "worker"), ("agents", "agent"), ("key", "api-key"), ("keys", "api-key")]
)
def test_a_command_that_is_not_there_is_met_with_the_one_that_is(
    desk: CommandDesk, typed: str, meant: str
) -> None:
    done = desk.type(typed)
    assert done.status == 2
    assert re.search(rf"Did you mean: .*\b{meant}\b", done.err), done.err


def test_a_trace_is_data_too(desk: CommandDesk) -> None:
    job_id = desk.live(Lives.finished)
    life = desk.type("trace", job_id, "--json").json
    assert (life["over"], len(life["spans"]), len(life["notes"])) == (True, 5, 2)
    events = desk.type("trace", job_id, "--events", "--json").lines
    assert [event["seq"] for event in events] == list(range(1, 15))
    assert "tool_returned" in desk.type("trace", job_id, "--events").out


def test_a_job_that_just_began_has_a_trace(desk: CommandDesk) -> None:
    job_id = desk.live(lambda one: one.submit(one.refund), ago_us=0)
    assert "refund submitted" in desk.type("trace", job_id).out


# ── the rest ──────────────────────────────────────────────────────────────────────────────────────


@BOTH
def test_one_journal_is_verified(desk: CommandDesk) -> None:
    job_id = desk.live(Lives.finished)
    done = desk.type("verify", job_id)
    assert (done.status, done.out) == (0, "14 events: verified\n")


def test_a_changed_journal_is_noticed(desk: CommandDesk) -> None:
    import apsw

    job_id = desk.live(Lives.finished)
    hand = apsw.Connection(desk.where.removeprefix("sqlite:///"))
    for (name,) in hand.execute("SELECT name FROM sqlite_master WHERE type = 'trigger'").fetchall():
        hand.execute(f'DROP TRIGGER "{name}"')
    hand.execute("UPDATE events SET at = at + 1 WHERE job_id = ? AND seq = 5", (job_id,))
    hand.close()
    done = desk.type("verify", job_id)
    assert (done.status, "the hash chain breaks at event 5" in done.out) == (1, True)
    assert desk.type("verify", job_id, "--json").json["violations"]


def test_dead_letters_are_listed_with_causes(desk: CommandDesk) -> None:
    job_id = desk.live(Lives.dead)
    done = desk.type("dead", "list")
    assert (job_id in done.out, "Failed after 3 attempts: LookupError: no such page" in done.out) == (
        True,
        True,
    )
    (line,) = desk.type("dead", "list", "--json").lines
    assert line["evidence"][0]["error"]["type"] == "LookupError"


def test_doctor_lists_the_crash_points_without_a_store(desk: CommandDesk) -> None:
    done = desk.type("doctor", "--crash-points", "--json")
    assert {line["crash point"]: line["state at this point"] for line in done.lines} == crash_points()


def test_every_command_is_on_the_page() -> None:
    """docs/cli.md names each command, and none that is not there."""
    from holdfast.cli.dead_letters import dead
    from holdfast.cli.root import holdfast

    page = (ROOT / "docs" / "cli.md").read_text(encoding="utf-8")
    named = set(re.findall(r"holdfast ((?:dead |db )?[a-z]+(?:-[a-z]+)*)", page))
    context = click.Context(holdfast)
    groups = {"dead": list(dead.commands), "db": ["status", "migrate", "backup", "restore", "verify"]}
    known = {
        f"{name} {inner}" if inner else name
        for name in holdfast.list_commands(context)
        for inner in groups.get(name, [""])
    }
    assert named == known
