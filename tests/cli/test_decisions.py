"""`holdfast cancel`, `resume`, `signal`, `reconcile`, `approve`, `deny`, `dead`: a person says it, the engine acts."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from holdfast.cli.exit_codes import exit_status
from holdfast.errors import InvalidMove, NotOver
from holdfast.model.time import HOUR, SECOND
from tests.api.client.job_states import Lives
from tests.cli.conftest import CommandDesk
from tests.cli.test_db import holdfast as as_process

pytestmark = pytest.mark.store("sqlite")
BOTH = pytest.mark.parametrize("desk", ["sqlite", "postgres"], indirect=True)


# ── reconcile ─────────────────────────────────────────────────────────────────────────────────────


@BOTH
@pytest.mark.parametrize("step", ["0/pay#1", "pay", "pay#1"])
def test_a_call_that_happened_is_adopted(desk: CommandDesk, step: str, tmp_path: Path) -> None:
    job_id = desk.live(Lives.uncertain)
    (tmp_path / "receipt.json").write_text('{"receipt": 1}')
    done = desk.type(
        "reconcile",
        job_id,
        step,
        "--happened",
        "--result",
        f"@{tmp_path / 'receipt.json'}",
        "--why",
        "on the statement",
    )
    assert (done.status, done.out) == (0, "")
    assert "the job continues as soon as a worker claims it" in done.err
    assert "1 message not read yet" in desk.type("job", job_id).out
    assert desk.go_on() == ["completed"]
    assert desk.type("job", job_id, "--json").json["output"] == {"receipt": 1}
    assert "ada decided about pay: it happened (on the statement)." in desk.type("trace", job_id).out


def test_it_did_not_happen_has_its_time(desk: CommandDesk) -> None:
    """Refused with the instant while the old worker could still send; accepted when it could not."""
    job_id = desk.live(Lives.uncertain, ago_us=40 * SECOND)
    early = desk.type("reconcile", job_id, "pay", "--not-happened", "--why", "not there")
    assert (early.status, "it is too early" in early.err, "Repeat the command in" in early.err) == (
        4,
        True,
        True,
    )
    assert desk.type("reconcile", job_id, "pay", "--skip", "--why", "leave it").status == 0


def test_a_second_word_is_a_conflict(desk: CommandDesk) -> None:
    job_id = desk.live(Lives.uncertain)
    words = ("reconcile", job_id, "pay", "--not-happened", "--why", "not there", "--operation-id", "op-1")
    assert desk.type(*words, "--json").json == {
        "job_id": job_id,
        "operation_id": "op-1",
        "at_once": False,
        "repeated": False,
    }
    assert desk.type(*words, "--json").json["repeated"], "before the job has heard it"
    other = desk.type("reconcile", job_id, "0/pay#1", "--fail", "--why", "no")
    assert (other.status, "ada has already decided 'not_happened'" in other.err) == (4, True)
    assert desk.go_on() == ["completed"]
    assert desk.type(*words, "--json").json["repeated"], "and after"


# ── cancel, dead, resume ──────────────────────────────────────────────────────────────────────────


@BOTH
def test_a_waiting_job_is_cancelled_at_once(desk: CommandDesk) -> None:
    job_id = desk.live(Lives.sleeping)
    done = desk.type("cancel", job_id, "--why", "ordered twice")
    assert (done.status, done.out, done.err) == (0, "", "cancelled\n")
    assert desk.type("job", job_id, "--json").json["status"] == "cancelled"
    again = desk.type("cancel", job_id)
    assert (again.status, "it is cancelled" in again.err) == (4, True)


def test_a_running_job_is_asked(desk: CommandDesk) -> None:
    """While a worker drives it the command leaves a letter; the worker ends the job."""

    async def drive(one: Lives) -> Any:
        async with one.running() as (job_id, run):
            done = await asyncio.to_thread(
                subprocess.run,
                [sys.executable, "-m", "holdfast.cli", "cancel", job_id, "--store", desk.where],
                capture_output=True,
                text=True,
                check=False,
                timeout=60,
            )
            run.poke()
            return done, await one.client.result(job_id, timeout_s=20)

    # The lease is counted in this boot's time, as the command's process will read it.
    done, job = desk.live(_on_this_boot(drive), ago_us=0)
    assert (done.returncode, job.status) == (0, "cancelled")
    assert "cancel requested: its worker" in done.stderr


def _on_this_boot(work: Any) -> Any:
    from holdfast.store.clock import SystemClock

    async def do(one: Lives) -> Any:
        real = SystemClock()
        one.clock.reboot(real.boot())
        one.clock._tick = real.tick_us()
        return await work(one)

    return do


@BOTH
def test_a_dead_letter_is_tried_again_or_ended(desk: CommandDesk) -> None:
    job_id = desk.live(Lives.dead)
    done = desk.type("dead", "requeue", job_id, "--why", "the shop is up")
    assert (done.status, done.err) == (0, "requeued: the job is tried again, its attempts count from zero\n")
    assert desk.type("job", job_id, "--json").json["attempts"] == 0
    assert desk.go_on() == ["pending", "pending", "waiting"]
    assert desk.type("dead", "discard", job_id).status == 2, "an end needs a reason"
    assert (
        desk.type("dead", "discard", job_id, "--why", "withdrawn").err == "discarded: the job is cancelled\n"
    )
    assert desk.type("dead", "discard", job_id, "--why", "withdrawn").status == 4
    assert desk.type("dead", "list").out == ""


def test_resume_is_for_jobs_that_are_held(desk: CommandDesk) -> None:
    parked, sleeping = desk.live(Lives.parked), desk.live(Lives.sleeping)
    assert desk.type("resume", parked, "--accept", "--why", "it was paid").status == 0
    refused = desk.type("resume", sleeping)
    assert (refused.status, "is not held: it is waiting (timer)" in refused.err) == (4, True)


# ── signal, approve ───────────────────────────────────────────────────────────────────────────────


def test_a_signal_carries_json(desk: CommandDesk, tmp_path: Path) -> None:
    job_id = desk.live(Lives.sleeping)
    (tmp_path / "data.json").write_text('{"cents": 4200}')
    assert desk.type("signal", job_id, "paid", "--data", '{"cents": 1}').status == 0
    assert desk.type("signal", job_id, "paid", "--data", f"@{tmp_path / 'data.json'}").status == 0

    async def letters(one: Lives) -> list[Any]:
        return [letter.body for letter in await one.store.post.read(job_id)]

    assert desk.live(letters) == [{"cents": 1}, {"cents": 4200}]


@BOTH
def test_an_approval_is_given_once(desk: CommandDesk) -> None:
    job_id = desk.live(Lives.asking)
    assert desk.type("approve", job_id, "--why", "called").status == 0
    late = desk.type("deny", "apr_1", "--why", "no")
    assert (late.status, "approval apr_1 was already approved by ada" in late.err) == (4, True)
    assert "holdfast approve" not in desk.type("job", job_id).out, "nothing to decide any more"


@BOTH
def test_a_budget_is_raised_by_the_line_that_the_screen_shows(desk: CommandDesk) -> None:
    job_id = desk.live(Lives.stopped)
    shown = desk.type("job", job_id).out
    assert "$0.000000 of $3.000000 spent, 2 of 2 tool calls" in shown
    assert "Budget used up: 2 of 2 tool calls" in shown
    assert f"holdfast raise {job_id} --tool-calls 4 --why '…'" in shown
    assert "Budget used up" in desk.type("jobs", "--person").out
    done = desk.type("raise", job_id, "--tool-calls", "4", "--usd", "4.5", "--why", "worth it")
    assert (done.status, done.out) == (0, "")
    assert "the job continues as soon as a worker claims it" in done.err
    assert desk.live(Lives.go_on_thrifty, ago_us=0) == ["completed"]
    (budget,) = desk.type("job", job_id, "--json").json["budgets"]
    assert budget["limits"] == {"tool_calls": 4, "usd_micros": 4_500_000}
    assert budget["spent"]["tool_calls"] == 3
    assert "budget raised by ada: 4 tool calls" in desk.type("trace", job_id).out
    late = desk.type("raise", job_id, "--tool-calls", "9")
    assert (late.status, "it is completed" in late.err) == (4, True)


@pytest.mark.parametrize(
    "arguments, status, said",
    [
        ((), 2, "no limit was given"),
        (("--tool-calls", "1"), 2, "allows 2 tool calls already"),
        (("--tokens", "9"), 2, "has no limit on tokens"),
        (("--tokens", "many"), 2, "Invalid value for '--tokens'"),
        (("--usd", "much"), 2, "'much' is not an amount of dollars"),
        (("--wall", "soon"), 2, "soon"),
        (("--tool-calls", "-1"), 2, "tool_calls is -1"),
        (("--tool-calls", "9", "--budget", "job_none"), 3, "does not apply to job"),
    ],
    ids=lambda value: " ".join(value)[:40] if isinstance(value, tuple) else None,
)
def test_mistakes_in_raising_end_in_a_sentence(
    desk: CommandDesk, arguments: tuple[str, ...], status: int, said: str
) -> None:
    job_id = desk.live(Lives.stopped)
    before = desk.type("job", job_id, "--json").json
    done = desk.type("raise", job_id, *arguments)
    assert (done.status, done.out) == (status, "")
    assert said in done.err
    assert desk.type("job", job_id, "--json").json == before


# ── mistakes ──────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    "arguments, status, said",
    [
        (("job", "job_none"), 3, "there is no job 'job_none'"),
        (("job",), 2, "Missing argument"),
        (("trace", "job_none"), 3, "there is no job"),
        (("verify", "job_none"), 3, "there is no job"),
        (("cancel", "job_none"), 3, "there is no job"),
        (("cancel", "a\tb"), 2, "job id has the character U+0009"),
        (("signal", "ID", "paid", "--data", "{paid}"), 2, "not JSON"),
        (("signal", "ID", "paid", "--data", '{"a": 1, "a": 2}'), 2, "[invalid_payload]"),
        (("signal", "ID", "paid", "--data", "NaN"), 2, "[invalid_payload]"),
        (("signal", "ID", "paid", "--data", "@missing.json"), 3, "there is no file missing.json"),
        (("signal", "ID", "paid", "--data", "@."), 2, "cannot read ."),
        (("signal", "ID", "x" * 201), 2, "signal name has 201 characters"),
        (("reconcile", "ID", "pay", "--why", "x"), 2, "Add one of --happened"),
        (("reconcile", "ID", "pay", "--happened"), 2, "Missing option '--why'"),
        (("reconcile", "ID", "pay", "--happened", "--why", " "), 2, "a decision needs a reason"),
        (("reconcile", "ID", "mail", "--happened", "--why", "x"), 3, "has no call 'mail'"),
        (("reconcile", "ID", "pay", "--fail", "--result", "1", "--why", "x"), 2, "takes no result"),
        (("approve", "apr_none"), 3, "there is no open approval"),
        (("dead", "requeue", "ID"), 4, "is not a dead letter: it is waiting (reconcile)"),
        (("jobs", "--status", "lost"), 2, "'lost' is not a status"),
        (("jobs", "--reason", "lost"), 2, "'lost' is not a wait reason"),
        (("jobs", "--limit", "0"), 2, "Invalid value for '--limit'"),
        (("jobs", "--cursor", "xyz"), 2, "the cursor"),
    ],
    ids=lambda value: " ".join(value)[:40] if isinstance(value, tuple) else None,
)
def test_mistakes_end_in_a_sentence(
    desk: CommandDesk, arguments: tuple[str, ...], status: int, said: str
) -> None:
    """The sentence, the exit status, nothing on stdout; and the job is as it was."""
    job_id = desk.live(Lives.uncertain)
    before = desk.type("job", job_id, "--json").json
    done = desk.type(*(job_id if word == "ID" else word for word in arguments))
    assert (done.status, done.out) == (status, "")
    assert said in done.err
    assert desk.type("job", job_id, "--json").json == before


def test_states_that_do_not_allow_it_are_conflicts() -> None:
    assert exit_status(InvalidMove("no")) == 4
    assert exit_status(NotOver("not yet")) == 5


def test_as_real_processes(desk: CommandDesk, tmp_path: Path) -> None:
    """The same through `python -m holdfast.cli`: also where the terminal knows only ASCII, and without a store."""
    job_id = desk.live(Lives.finished)
    shown = as_process("trace", job_id, cwd=tmp_path, store=desk.where)
    assert (shown.returncode, "took over" in shown.stdout, shown.stderr) == (0, True, "")
    assert as_process("jobs", cwd=tmp_path).returncode == 3, "looking makes no store"
    assert list(tmp_path.iterdir()) == []
    ascii_only = subprocess.run(
        [sys.executable, "-m", "holdfast.cli", "trace", job_id, "--store", desk.where],
        capture_output=True,
        env={"PYTHONIOENCODING": "ascii", "PYTHONPATH": ":".join(sys.path)},
        check=False,
        timeout=60,
    )
    assert (ascii_only.returncode, ascii_only.stderr) == (0, b"")
    unreachable = as_process("jobs", "--store", "postgresql://nobody@127.0.0.1:1/none", cwd=tmp_path)
    assert unreachable.returncode == 5


def test_a_reader_that_has_seen_enough(desk: CommandDesk) -> None:
    """`holdfast jobs | head`: the pipe closes before anything is written, and nobody complains."""
    job_id = desk.live(Lives.finished)
    for arguments in (("jobs", "--json"), ("trace", job_id), ("trace", job_id, "--json"), ("db", "status")):
        with subprocess.Popen(
            [sys.executable, "-m", "holdfast.cli", *arguments, "--store", desk.where],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        ) as process:
            assert process.stdout is not None
            process.stdout.close()
            assert process.stderr is not None
            assert process.stderr.read() == "", arguments


def test_a_job_sleeps_through_an_hour(desk: CommandDesk) -> None:
    """What is not due is not claimed: the screens do not wake anybody."""
    job_id = desk.live(Lives.sleeping, ago_us=HOUR // 2)
    desk.type("job", job_id)
    desk.type("trace", job_id)
    assert desk.live(lambda one: one.go_on(rounds=1), ago_us=0) == []
