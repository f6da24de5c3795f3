"""The museum: every planted bug is noticed, or the world is blind."""

from __future__ import annotations

import pytest

from holdfast.engine import replay_scheduler
from holdfast.model import side_effects as rules
from tests.engine.replay.stage import play as play_program
from tests.engine.replay.test_timeouts import two_timers
from tests.kill.crash_points.enumeration import CameOutWrong, Way, cuts, play
from tests.kill.crash_points.scenarios import Mail
from tests.simulation import planted_command_bugs
from tests.simulation.planted_bugs import FOUND_BY, MUSEUM, SEEDS
from tests.simulation.world.run import run

RARE = {
    "a_refusal_speaks_for_earlier_requests_too",
    "a_result_on_its_way_to_the_disk_is_passed",
    "a_store_that_is_away_is_asked_at_once",
    "a_timeout_is_heard_out_of_turn",
    "children_of_the_cancelled_go_on",
    "the_sweep_buries_those_with_mail",
}
"""Met by one world in hundreds: looked for in the long runs."""


@pytest.mark.store("memory")
@pytest.mark.parametrize("name", [name for name in MUSEUM if name not in RARE])
def test_a_planted_bug_is_noticed(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    _noticed(name, monkeypatch, SEEDS)


@pytest.mark.chaos
@pytest.mark.timeout(1800)
@pytest.mark.store("memory")
@pytest.mark.parametrize("name", sorted(RARE & set(MUSEUM)))
def test_a_rare_bug_is_noticed(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    _noticed(name, monkeypatch, 6000)


def _noticed(name: str, monkeypatch: pytest.MonkeyPatch, seeds: int) -> None:
    MUSEUM[name](monkeypatch)
    for seed in [FOUND_BY.get(name, 0), *range(seeds)]:
        verdict = run(seed)
        if verdict.findings:
            print(f"{name}: seed {seed}: {verdict.findings[0]}")
            return
    pytest.fail(f"{seeds} worlds lived happily with this bug: {name}")


@pytest.mark.store("memory")
def test_a_key_that_is_trusted_for_ever_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """No world lasts a day; the enumeration of crash points does."""
    points = play(Mail("keyed")).passed[0]
    monkeypatch.setattr(rules, "_key_is_remembered", lambda _: True)
    wrong = 0
    for cut in cuts(points):
        try:
            play(Mail("keyed", may_ask=True), [cut], Way.LATE)
        except CameOutWrong as error:
            assert "happened 2 times" in str(error)  # noqa: PT017 - which wrong it is matters
            wrong += 1
    assert wrong > 0


def test_timers_that_go_by_the_clock_are_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """A world meets it once in thousands; a replay that is quicker than the first run meets it every time."""
    monkeypatch.setattr(replay_scheduler, "install", lambda _: None)
    first = play_program(two_timers, seed=1)
    again = play_program(two_timers, seed=2, journal=first.journal)
    assert again.trace != first.trace


def test_the_museum_is_full() -> None:
    assert len(MUSEUM) >= 42
    assert MUSEUM["a_signal_is_taken_twice"] is planted_command_bugs.a_signal_is_taken_twice
