"""What one seed is made of: sizes, faults, and the errands of the jobs.

Not every fault is in every world (a swarm): where kills are rare, jobs get far enough to meet the rarer things, and
where there is only one kind of fault, what breaks is easy to see.
"""

from __future__ import annotations

import random
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
    takeovers_max: int
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
        fond_of=chance.choice((None, "both", "both", "mail", "post", "pay", "renamed")),
        signal_every_s=every(0.5, 10),
        nonsense=chance.choice((0.0, 0.1)),
        odd_words=chance.choice((0.0, 0.0, 0.5)),
        takeovers_max=chance.choice((3, 1000)),
        deployed_at_s=chance.choice((0.0, 20.0, 45.0)),
    )
    jobs = chance.choice((5, 6, 6, 7, 8, 10, 12, 20))
    return msgspec.structs.replace(mix, errands=tuple(errand_of(chance, mix.fond_of) for _ in range(jobs)))


KINDS: Final = ("look", "pay", "mail", "post", "draft", "file")


def errand_of(chance: random.Random, fond_of: str | None) -> list[Any]:
    """What a job does: a list of moves, each under its own label; many are of the kind the world is fond of."""
    labels = iter(range(1000))

    def moves(most: int, depth: int) -> list[Any]:
        return [move(depth) for _ in range(chance.randint(1, most))]

    def move(depth: int) -> list[Any]:
        draw = chance.random()
        label = f"{next(labels)}"
        if fond_of and chance.random() < 0.4 and (fond_of != "both" or depth == 0):
            draw = 1.0
            if fond_of != "both":
                return [fond_of, label]
        if draw < 0.6:
            return [chance.choice(KINDS), label]
        if draw < 0.7:
            return ["sleep", label, chance.choice((1, 5, 20))]
        if draw < 0.78:
            return ["give_up", label, chance.choice((0.01, 0.3, 3.0))]
        if draw < 0.84:
            return ["flaky", label, chance.choice((1, 1, 1, 2, 5))]
        if draw < 0.88:
            return ["caught", label]
        if draw < 0.90:
            return ["renamed", label]
        if depth == 0:
            return ["both", label, moves(2, 1), moves(2, 1)]
        return ["look", label]

    return moves(5, 0)


def labels_in(moves: list[Any]) -> dict[str, str]:
    """Label → what is done under it, inner branches included."""
    found: dict[str, str] = {}
    for move in moves:
        found[move[1]] = move[0]
        if move[0] == "both":
            found |= labels_in(move[2]) | labels_in(move[3])
    return found
