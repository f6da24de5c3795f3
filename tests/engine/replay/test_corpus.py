"""Journals that an earlier version wrote replay with this one: to the same end, without a call."""

from __future__ import annotations

import msgspec
import pytest

from holdfast.engine.replay_check import replay_journal
from holdfast.engine.verify.call_checks import check_calls
from holdfast.engine.verify.journal_view import facts_of
from holdfast.engine.verify.lifecycle_checks import fold_journal
from holdfast.model import job_state
from holdfast.model.events import EVENTS
from holdfast.model.hash_chain import find_break
from holdfast.testing.virtual_loop import LoopClock, SimLoop
from tests.engine.replay.corpus import DONE, FOLDER, PROGRAMS, Written, read, record

NAMES = sorted(path.stem for path in FOLDER.glob("*.json"))


@pytest.mark.parametrize("name", NAMES)
def test_an_old_journal_replays(name: str) -> None:
    """Goal: whoever upgrades loses no job. Method: the journal as it lies in its file, the program as it is now."""
    written = read(name)
    DONE.clear()
    with SimLoop() as loop:
        replayed = loop.run_until_complete(
            replay_journal(written.job_id, written.sealed(), PROGRAMS[written.program], clock=LoopClock(loop))
        )
    assert replayed.same, replayed.difference
    assert replayed.steps > 0
    assert DONE == []


@pytest.mark.parametrize("name", NAMES)
def test_an_old_journal_is_whole(name: str) -> None:
    """Its chain holds, and the rules of today find nothing wrong with it."""
    written = read(name)
    sealed = written.sealed()
    assert find_break(written.job_id, sealed) is None
    facts = facts_of(sealed)
    assert isinstance(fold_journal(facts), job_state.JobState)
    assert list(check_calls(facts, {})) == []


def test_the_corpus_is_all_there() -> None:
    """Every program has its journal, and together they tell of every way a call can go."""
    assert sorted(PROGRAMS) == NAMES
    types = {event["type"] for name in NAMES for event in read(name).events}
    assert types <= EVENTS.keys()
    assert types >= {
        "step_finished",
        "call_cancelled",
        "tool_called",
        "tool_returned",
        "tool_uncertain",
        "tool_reconciled",
        "timer_set",
        "timer_fired",
        "job_requeued",
        "job_waiting",
        "job_completed",
        "job_cancelled",
    }


def test_a_forged_result_is_noticed() -> None:
    """Change one character of a result in the file: the chain no longer holds."""
    written = read("greeting")
    changed = [event | {"body": event["body"].replace("日本", "二本")} for event in written.events]
    assert find_break(written.job_id, Written("greeting", written.job_id, changed).sealed()) is not None


def test_recording_is_repeatable() -> None:
    """The same program gives the same journal, so that a journal shows what changed and not when it was made."""
    assert msgspec.to_builtins(record("branches")) == msgspec.to_builtins(record("branches"))
