"""What running code says while it runs, for people who watch: chunks, and where each of them lies.

A chunk has an address: the job, the name of its stream, the attempt of the call that said it, and its offset among what
that attempt said on that stream. A stream is not part of the journal and not a fact. It may lose its tail in a crash,
and nothing is ever decided by it; what counts is what the call returns.

A call that is made again says everything again. The second attempt is announced, and a reader throws away what it has
of the first one: `AttemptSuperseded`.

Everything that one holder of a job says is numbered from 1 in the order it was said, whatever the stream. Fence and
number together are the *cursor*: holders follow each other with growing fences, so cursors only ever grow, and a reader
that keeps the last one goes on from there without gaps and without repeats. What is stored is a *passage*: consecutive
chunks of one holder, written together.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, Final

import msgspec

from holdfast.errors import InvalidPayload
from holdfast.model import canonical
from holdfast.model.limits import PASSAGE_BYTES_MAX

DEFAULT_STREAM: Final = "out"


class Cursor(msgspec.Struct, frozen=True, order=True):
    """A place in what a job says: everything up to and including it has been seen."""

    fence: int = 0
    number: int = 0

    def __str__(self) -> str:
        return f"{self.fence}.{self.number}"


START: Final = Cursor()
_CURSOR: Final = re.compile(r"([0-9]{1,18})\.([0-9]{1,18})")


def parse_cursor(text: str | None) -> Cursor:
    """The cursor as it was given out; None is the beginning."""
    if text is None:
        return START
    match = _CURSOR.fullmatch(text)
    if match is None:
        msg = f"{text!r} is not a stream cursor"
        raise InvalidPayload(
            msg, hint="Pass the `cursor` of the last chunk you have, or none to start from the beginning."
        )
    return Cursor(int(match[1]), int(match[2]))


class Chunk(msgspec.Struct, frozen=True):
    """Something that was said. `missing`: so many chunks before it were let go, because nobody could store them."""

    stream: str
    step_key: str
    attempt: int
    offset: int
    said: Any
    cursor: str
    missing: int = 0


class AttemptSuperseded(msgspec.Struct, frozen=True):
    """The call is made again, as this attempt: forget what earlier attempts of this step said, on every stream."""

    step_key: str
    attempt: int
    cursor: str


class StreamLine(msgspec.Struct, frozen=True):
    """Chunks of one attempt on one stream, one after the other. Without a stream: the attempt is announced, and
    supersedes those before it."""

    stream: str
    step_key: str
    attempt: int
    offset: int
    said: list[Any]

    @property
    def numbers(self) -> int:
        """How many numbers the line takes: an announcement has one, too."""
        return len(self.said) if self.stream else 1


class Passage(msgspec.Struct, frozen=True):
    """Consecutive chunks of one holder. `last` is the number of the last one; `voices` are the steps that speak in it,
    and their attempts."""

    fence: int
    last: int
    chunks: int
    voices: tuple[tuple[str, int], ...]
    body: bytes
    at: int = 0


def passage_of(fence: int, last: int, lines: list[StreamLine]) -> Passage:
    """The lines as they are stored."""
    voices = dict.fromkeys((line.step_key, line.attempt) for line in lines)
    body = canonical.encode(
        [[line.stream, line.step_key, line.attempt, line.offset, line.said] for line in lines],
        bytes_max=PASSAGE_BYTES_MAX,
    )
    return Passage(fence, last, sum(line.numbers for line in lines), tuple(voices), body)


def select_chunks(passage: Passage, after: Cursor) -> Iterator[Chunk | AttemptSuperseded]:
    """What the passage says that lies behind the cursor."""
    number = passage.last - passage.chunks
    missing = number - after.number if passage.fence == after.fence else number
    for line in (StreamLine(*row) for row in canonical.decode_stored(passage.body)):
        for nth, said in enumerate(line.said if line.stream else [None]):
            number += 1
            cursor = Cursor(passage.fence, number)
            if cursor <= after:
                continue
            if line.stream:
                gap, missing = max(missing, 0), 0
                place = line.offset + nth
                yield Chunk(line.stream, line.step_key, line.attempt, place, said, str(cursor), gap)
            else:
                yield AttemptSuperseded(line.step_key, line.attempt, str(cursor))


def check_passage(passage: Passage) -> Passage:
    """The passage, or an error that says what is wrong with it."""
    if not 1 <= passage.chunks <= passage.last:
        msg = f"a passage cannot have {passage.chunks} chunks up to number {passage.last}"
        raise InvalidPayload(msg, hint="Number what a holder says from 1.")
    if len(passage.body) > PASSAGE_BYTES_MAX:
        msg = f"a passage of {len(passage.body):,} bytes is larger than {PASSAGE_BYTES_MAX:,}"
        raise InvalidPayload(msg, hint="Write what was said in smaller passages.")
    return passage
