"""Streams: output of running code for people who watch, in chunks, and the address of each chunk.

A chunk has an address: the job, the name of its stream, the attempt of the call that emitted it, and its offset in the
output of that attempt on that stream. A stream is not part of the journal. It may lose its tail in a crash, and nothing
is ever decided by it; what counts is what the call returns.

A call that is made again emits everything again. The second attempt is announced, and a reader drops the output of the
first one: `AttemptSuperseded`.

Everything that one holder of a job emits is numbered from 1 in order, whatever the stream. Fence and number together
are the *cursor*: successive holders have growing fences, so cursors only ever grow, and a reader that keeps the last
one continues there without gaps and without repeats. What is stored is a *passage*: consecutive chunks of one holder,
written together.
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
    """A position in the output of a job: everything up to and including it has been read."""

    fence: int = 0
    number: int = 0

    def __str__(self) -> str:
        return f"{self.fence}.{self.number}"


START: Final = Cursor()
_CURSOR: Final = re.compile(r"([0-9]{1,18})\.([0-9]{1,18})")


def parse_cursor(text: str | None) -> Cursor:
    """Parse a cursor; None is the beginning."""
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
    """One piece of output. `missing`: how many chunks before it were dropped because they could not be stored."""

    stream: str
    step_key: str
    attempt: int
    offset: int
    said: Any
    cursor: str
    missing: int = 0


class AttemptSuperseded(msgspec.Struct, frozen=True):
    """The call is made again, as this attempt: drop the output of earlier attempts of this step, on every stream."""

    step_key: str
    attempt: int
    cursor: str


class StreamLine(msgspec.Struct, frozen=True):
    """Consecutive chunks of one attempt on one stream. Without a stream: the announcement of an attempt, which
    supersedes those before it."""

    stream: str
    step_key: str
    attempt: int
    offset: int
    said: list[Any]

    @property
    def numbers(self) -> int:
        """How many numbers the line takes: an announcement takes one, too."""
        return len(self.said) if self.stream else 1


class Passage(msgspec.Struct, frozen=True):
    """Consecutive chunks of one holder. `last` is the number of the last one; `voices` are the steps with output in it,
    and their attempts."""

    fence: int
    last: int
    chunks: int
    voices: tuple[tuple[str, int], ...]
    body: bytes
    at: int = 0


def passage_of(fence: int, last: int, lines: list[StreamLine]) -> Passage:
    """The passage of these lines, as it is stored."""
    voices = dict.fromkeys((line.step_key, line.attempt) for line in lines)
    body = canonical.encode(
        [[line.stream, line.step_key, line.attempt, line.offset, line.said] for line in lines],
        bytes_max=PASSAGE_BYTES_MAX,
    )
    return Passage(fence, last, sum(line.numbers for line in lines), tuple(voices), body)


def select_chunks(passage: Passage, after: Cursor) -> Iterator[Chunk | AttemptSuperseded]:
    """The chunks of the passage after the cursor."""
    number = passage.last - passage.chunks
    missing = number - after.number if passage.fence == after.fence else number
    for line in (StreamLine(*row) for row in canonical.decode_stored(passage.body)):
        for nth, output in enumerate(line.said if line.stream else [None]):
            number += 1
            cursor = Cursor(passage.fence, number)
            if cursor <= after:
                continue
            if line.stream:
                gap, missing = max(missing, 0), 0
                place = line.offset + nth
                yield Chunk(line.stream, line.step_key, line.attempt, place, output, str(cursor), gap)
            else:
                yield AttemptSuperseded(line.step_key, line.attempt, str(cursor))


def check_passage(passage: Passage) -> Passage:
    """Return the passage, or raise an error that says what is wrong with it."""
    if not 1 <= passage.chunks <= passage.last:
        msg = f"a passage cannot have {passage.chunks} chunks up to number {passage.last}"
        raise InvalidPayload(msg, hint="Number what a holder says from 1.")
    if len(passage.body) > PASSAGE_BYTES_MAX:
        msg = f"a passage of {len(passage.body):,} bytes is larger than {PASSAGE_BYTES_MAX:,}"
        raise InvalidPayload(msg, hint="Write what was said in smaller passages.")
    return passage
