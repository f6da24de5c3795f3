"""What is written: the same bytes for everybody, the same in every run."""

from __future__ import annotations

import random
from typing import Final

from holdfast.model.events import StepFinished
from holdfast.model.hash_chain import body_of
from holdfast.model.ids import SequentialIds

GROUP: Final = 32
"""Jobs that share a commit."""

STEPS: Final = 100
"""Steps in series of one job."""

STEPS_PER_JOB: Final = 5
"""Steps of a job that goes through the queue."""

TURNS: Final = 200
TURN_BYTES: Final = 2048

_LETTERS: Final = "abcdefghijklmnopqrstuvwxyz"


def words(size: int, seed: int) -> str:
    """Text of exactly this many bytes. The letters are chance, so that no compression flatters anybody."""
    chance = random.Random(seed)
    pieces: list[str] = []
    length = 0
    while length < size:
        piece = "".join(chance.choices(_LETTERS, k=chance.randint(2, 9)))
        pieces.append(piece)
        length += len(piece) + 1
    return " ".join(pieces)[:size]


RESULT: Final = {"summary": words(146, 1), "status": 200, "ok": True}
_DIGEST: Final = "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08"


def step(number: int) -> StepFinished:
    """A fact of about 300 bytes."""
    return StepFinished(step_key=f"1/fetch#{number}", args_digest=_DIGEST, result=RESULT)


BODY: Final = body_of(step(1000))
"""The same fact as the raw contestants write it: bytes, made beforehand."""

_IDS: Final = SequentialIds()
JOB_IDS: Final = tuple(_IDS.new("job") for _ in range(GROUP))
HASH: Final = bytes(range(32))
FENCE: Final = 2**32 + 1
AT: Final = 1_700_000_000_000_000

TEXTS: Final = tuple(words(TURN_BYTES, seed) for seed in range(TURNS))
