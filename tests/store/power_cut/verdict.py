"""Cutting the power before every step of a recording, and what came of it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from tests.store.power_cut.evidence import Eye, Sight
from tests.store.power_cut.recording_disk import Cut, cuts
from tests.store.power_cut.scenario import FILE, Recording


class Verdict:
    """Each list says step, seed and what was wrong there: enough to rebuild the files with `cut_at`."""

    def __init__(self) -> None:
        self.cuts = 0
        self.damaged: list[str] = []
        self.strange: list[str] = []
        self.lost: list[str] = []
        self.cuts_that_lost = 0

    def __str__(self) -> str:
        return (
            f"{self.cuts} cuts, {self.cuts_that_lost} of them lost {len(self.lost)} acknowledged writes, "
            f"{len(self.damaged)} damaged files, {len(self.strange)} half-done states"
        )


def cut_everywhere(
    recording: Recording, seeds: Sequence[int], moments: frozenset[str], folder: Path
) -> Verdict:
    """`moments` are the pictures that the store may show: those of its commits, and nothing in between."""
    verdict = Verdict()
    observatory = Observatory(recording, folder)
    for cut in cuts(recording.tape, seeds):
        where = f"step {cut.at}, seed {cut.seed}"
        sight = observatory.see(cut)
        lost = missing(sight, recording, cut.at)
        verdict.cuts += 1
        verdict.cuts_that_lost += bool(lost)
        verdict.lost += [f"{where}: {name}" for name in lost]
        verdict.damaged += [f"{where}: {line}" for line in sight.damage]
        verdict.strange += [f"{where}: {line}" for line in sight.half_done]
        if sight.picture not in moments:
            verdict.strange.append(f"{where}: a state that the store was never in")
    return verdict


class Observatory:
    """Where cuts are rebuilt, one after the other, and looked at."""

    def __init__(self, recording: Recording, folder: Path) -> None:
        self.path = folder / FILE
        self._folder = folder
        self._eye: Eye = recording.eye()

    def put(self, cut: Cut) -> None:
        cut.write_to(self._folder)

    def look(self) -> Sight:
        return self._eye.look(self.path)

    def see(self, cut: Cut) -> Sight:
        """What is in the files after the cut."""
        self.put(cut)
        return self.look()


def missing(sight: Sight, recording: Recording, at: int) -> list[str]:
    """What had been acknowledged by this step and is not there."""
    return [ack.name for ack in recording.acks if ack.at <= at and not sight.facts.issuperset(ack.facts)]
