"""What one seed is made of: sizes, faults, and the errands of the jobs.

Not every fault is in every world (a swarm): where kills are rare, jobs get far enough to meet the rarer things, and
where there is only one kind of fault, what breaks is easy to see.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any, Final

import msgspec

FAULT_PHASE_S: Final = 90.0


class Mix(msgspec.Struct, frozen=True, kw_only=True):
    """Shares are per call of the store, point of the engine, or request; periods are in seconds, 0 for never."""

    workers: int
    concurrency: int
    errands: tuple[Any, ...]
    # the store
    refused: float
    lost: float
    dies: float
    freezes: float
    freezes_at_intent: float
    outage_every_s: float
    # processes
    dies_at_point: float
    kill_every_s: float
    freeze_every_s: float
    drain_every_s: float
    jump_every_s: float
    sweep_every_s: float
    proves_death: bool
    # the outside
    request_lost: float
    reply_lost: float
    late: float
    doubled: float
    refusal: float
    probe_fails: float
    # people
    cancels: float
    cancel_after_s: float
    person_every_s: float
    signal_every_s: float
    nonsense: float
    odd_words: float
    silence: float
    resumes: int
    unused: int
    """Drawn and not used: without it every seed that is known to meet a bug would be another world."""
    deployed_at_s: float
    deaf: bool
    latency_s: float
    fond_of: str | None


def mix_of(seed: int) -> Mix:
    """The same for the same seed, for ever: reproductions depend on it."""
    chance = random.Random(seed)

    def sometimes(largest: float) -> float:
        return chance.choice((0.0, 0.0, 0.3, 1.0)) * largest

    def every(least: float, most: float) -> float:
        return chance.choice((0.0, 1.0)) * chance.uniform(least, most)

    mix = Mix(
        errands=(),
        workers=chance.randint(3, 5),
        concurrency=chance.randint(1, 4),
        refused=sometimes(0.05),
        lost=sometimes(0.05),
        dies=sometimes(0.01),
        freezes=sometimes(0.02),
        freezes_at_intent=sometimes(0.15),
        outage_every_s=every(20, 60),
        dies_at_point=sometimes(0.08),
        kill_every_s=every(6, 30),
        freeze_every_s=every(10, 40),
        drain_every_s=chance.choice((0.0, 0.0, 25.0)),
        jump_every_s=every(15, 60),
        request_lost=sometimes(0.2),
        reply_lost=sometimes(0.4),
        late=sometimes(0.6),
        doubled=sometimes(0.2),
        refusal=sometimes(0.1),
        probe_fails=sometimes(0.5),
        cancels=chance.choice((0.0, 0.2, 0.6)),
        person_every_s=chance.choice((10.0, 10.0, 60.0)),
        cancel_after_s=chance.choice((0.3, 1.0, 8.0)),
        deaf=chance.random() < 0.4,
        latency_s=chance.choice((0.01, 0.01, 0.1, 0.5)),
        fond_of=chance.choice(FOND_OF),
        signal_every_s=every(0.5, 10),
        nonsense=chance.choice((0.0, 0.1)),
        odd_words=chance.choice((0.0, 0.0, 0.5)),
        silence=chance.choice((0.0, 0.3)),
        resumes=chance.choice((0, 2, 3)),
        sweep_every_s=every(4, 20),
        proves_death=chance.random() < 0.3,
        unused=chance.choice((3, 1000)),
        deployed_at_s=chance.choice((0.0, 20.0, 45.0)),
    )
    jobs = chance.choice((4, 5, 5, 6, 6, 7, 8, 14))
    return msgspec.structs.replace(mix, errands=tuple(errand_of(chance, mix.fond_of) for _ in range(jobs)))


KINDS: Final = ("look", "pay", "mail", "post", "draft", "file", "box")
FOND_OF: Final = (
    *(None, "both", "both", "both", "both", "mail", "post", "pay", "renamed"),
    *("wait", "child", "asked", "reworded", "box", "checkpoint"),
)
CHANGED: Final = frozenset({"renamed", "reworded"})
"""What the new version of the code does otherwise."""

NAMES: Final = ("paid", "paid", "shipped")
"""What signals are called: few names, so that several waits want the same."""


class _Author:
    """Writes one errand; every move of it and of its children has its own label."""

    def __init__(self, chance: random.Random, fond_of: str | None) -> None:
        self._chance = chance
        self._fond_of = fond_of
        self._labels = iter(range(1000))

    def moves(self, most: int, depth: int) -> list[Any]:
        return [self.move(depth) for _ in range(self._chance.randint(1, most))]

    def move(self, depth: int) -> list[Any]:
        """Depth 0 is the errand itself, 1 a branch of it, 2 and 3 the same of a child, 4 deeper than anything goes."""
        chance = self._chance
        kind = self._kind(chance.random())
        label = f"{next(self._labels)}"
        if self._fond_of and chance.random() < 0.4:
            kind = self._fond_of
        match kind:
            case "sleep":
                return [kind, label, chance.choice((1, 5, 20))]
            case "give_up":
                return [kind, label, chance.choice((0.01, 0.3, 3.0))]
            case "flaky":
                return [kind, label, chance.choice((1, 1, 1, 2, 5))]
            case "wait":
                return [kind, label, chance.choice(NAMES), chance.choice((None, None, 2, 30))]
            case "asked":
                return [kind, label, chance.choice(("pay", "mail")), chance.choice((5, 20, 3600))]
            case "child" if depth < 4:
                inner = self.moves(2, 2 if depth < 2 else 4)
                return [kind, label, inner, chance.choice((None, None, None, 0.05, 1.0))]
            case "both" if depth % 2 == 0 and depth < 4:
                return [kind, label, self.moves(2, depth + 1), self.moves(2, depth + 1)]
            case "checkpoint" if depth % 2 == 0:
                return [kind, label]
            case "both" | "child" | "checkpoint":
                return ["look", label]
            case _:
                return [kind, label]

    def _kind(self, draw: float) -> str:
        for kind, share in _SHARES:
            draw -= share
            if draw < 0:
                return kind
        return self._chance.choice(KINDS)


_SHARES: Final = (
    ("both", 0.12),
    ("sleep", 0.07),
    ("give_up", 0.06),
    ("flaky", 0.05),
    ("caught", 0.03),
    ("renamed", 0.02),
    ("wait", 0.06),
    ("child", 0.05),
    ("asked", 0.05),
    ("reworded", 0.02),
    ("checkpoint", 0.04),
)


def errand_of(chance: random.Random, fond_of: str | None) -> list[Any]:
    """What a job does: a list of moves, each under its own label; many are of the kind the world is fond of."""
    return _Author(chance, fond_of).moves(5, 0)


def moves_in(moves: list[Any]) -> Iterator[Any]:
    """Every move, those of inner branches included. What a child does is the child's."""
    for move in moves:
        yield move
        if move[0] == "both":
            yield from moves_in(move[2])
            yield from moves_in(move[3])


def labels_in(moves: list[Any]) -> dict[str, str]:
    """Label → what is done under it."""
    return {move[1]: move[2] if move[0] == "asked" else move[0] for move in moves_in(moves)}
