"""Every crash point of the seed 001 scenarios, every way of being cut off there, every way of going on."""

from __future__ import annotations

import pytest

from holdfast.engine.crash_points import Point
from tests.kill.crash_points.enumeration import CameOutWrong, Cut, Way, cuts, play
from tests.kill.crash_points.scenarios import MAILS, SCENARIOS, Mail
from tests.support.mail_receivers import PlainMail

WAYS = (Way.RETURNS, Way.OTHER, Way.ZOMBIE)


@pytest.mark.store("memory")
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("name", SCENARIOS)
def test_every_point(name: str, way: Way) -> None:
    """The outside's own log: exactly one; and only the plain mail ever needed a person's word."""
    make = SCENARIOS[name]
    calm = play(make())
    points = calm.passed[0]
    assert not calm.asked
    asked = cases = 0
    for cut in cuts(points):
        played = play(make(), [cut], way)
        asked += played.asked > 0
        cases += 1
        assert played.output == calm.output or name == "reading"
    print(f"{name}: {len(points)} points, {cases} cases, {asked} times somebody was asked; {way}")
    assert cases > len(points) >= 6
    assert (asked > 0) == (name == "plain"), "some cuts of a plain mail leave nobody who knows"


@pytest.mark.store("memory")
@pytest.mark.parametrize("name", MAILS)
def test_every_pair_of_points(name: str) -> None:
    """Cut off, taken over, cut off again during the recovery, taken over once more."""
    make = SCENARIOS[name]
    points = play(make()).passed[0]
    pairs = 0
    for nth, point in enumerate(points, 1):
        first = Cut(nth, point)
        recovery = play(make(), [first]).passed[1]
        for again, other in enumerate(recovery, 1):
            play(make(), [first, Cut(again, other)])
            pairs += 1
    print(f"{name}: {pairs} pairs")
    assert pairs > 200


@pytest.mark.store("memory")
def test_a_day_later_a_key_is_not_trusted() -> None:
    """Nobody comes for a day, and the receiver has forgotten the key: then even a keyed mail waits for a word."""
    asked = 0
    for cut in cuts(play(SCENARIOS["keyed"]()).passed[0]):
        asked += play(Mail("keyed", may_ask=True), [cut], Way.LATE).asked
    assert asked > 0


def test_the_scenarios_pass_every_point_of_the_engine() -> None:
    passed = {point for make in SCENARIOS.values() for point in play(make()).passed[0]}
    assert set(Point) <= passed
    assert {f"journal.append_many:{side}" for side in ("before", "after")} <= passed


def test_a_second_mail_is_noticed() -> None:
    """The check can fail: a receiver that does not keep its word about keys is found out."""
    failures = 0
    for cut in cuts(play(SCENARIOS["keyed"]()).passed[0]):
        try:
            play(Mail("keyed", mail=PlainMail()), [cut])
        except CameOutWrong:
            failures += 1
    assert failures > 0
