"""Primitives: what an agent's code may call besides its tools: sleep, wait, checkpoint, scope, now."""

from __future__ import annotations

import datetime as dt
import uuid as uuids
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from typing import Any, TypeVar, cast

from holdfast.agents import context
from holdfast.agents.signatures import convert_value, plain
from holdfast.engine import checkpoints, deterministic_values, suspension
from holdfast.engine.streams import VOICE, Room
from holdfast.errors import InvalidMove
from holdfast.model.evidence import Evidence, EvidenceSet
from holdfast.model.ids import check_name
from holdfast.model.streams import DEFAULT_STREAM
from holdfast.model.time import Duration, parse_duration

T = TypeVar("T")

EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)


async def sleep(duration: Duration) -> None:
    """Sleeps durably ("3d", "90s", a timedelta). The job holds neither a worker nor a lease meanwhile."""
    await suspension.sleep(context.drive("hf.sleep"), parse_duration(duration))


async def wait(name: str, *, timeout: Duration | None = None) -> Any:
    """Waits for the next signal of this name and returns its body; raises TimeoutError if none arrives in time."""
    limit = None if timeout is None else parse_duration(timeout)
    return await suspension.wait(context.drive("hf.wait"), name, limit)


async def checkpoint(state: Any, *, evidence: Iterable[Evidence] | EvidenceSet = ()) -> int:
    """Stores the state durably; the job resumes from it: earlier events are not replayed any more."""
    pack = evidence if isinstance(evidence, EvidenceSet) else EvidenceSet(tuple(evidence))
    return await checkpoints.checkpoint(
        context.drive("hf.checkpoint"), plain(state, "the state of a checkpoint"), pack
    )


async def restore(default: T, *, type: Any = None) -> T:  # noqa: A002 - it is the type of the state
    """The state of the last checkpoint; the default if there is none yet."""
    state = checkpoints.restore_state(context.drive("hf.restore"), _NONE)
    if state is _NONE:
        return default
    kind = type if type is not None else (Any if default is None else default.__class__)
    return cast("T", convert_value(state, kind, "the state of the last checkpoint"))


_NONE: Any = object()


@asynccontextmanager
async def scope(name: str) -> AsyncIterator[None]:
    """Numbers the calls in the block separately: code added before it does not shift their step keys."""
    with context.drive("hf.scope").scope(name):
        yield


def now() -> dt.datetime:
    """The current job time; a replay returns the same."""
    return EPOCH + dt.timedelta(microseconds=deterministic_values.now_us(context.drive("hf.now")))


def uuid() -> uuids.UUID:
    """A new id; a replay returns the same. Not for secrets: it is derived from the job's id and the place in the
    code."""
    return uuids.UUID(bytes=deterministic_values.draw(context.drive("hf.uuid"), "uuid")[:16], version=4)


def random() -> float:
    """A number from 0 to 1 (1 excluded); a replay returns the same. Not for secrets."""
    return int.from_bytes(deterministic_values.draw(context.drive("hf.random"), "random")[:7]) / 2**56


def emit(output: Any, *, stream: str = DEFAULT_STREAM) -> Room:
    """Emits output to the watchers of the job: a token, a line of progress, any JSON. Call it inside a tool or step.

    Output is not recorded, and nothing may depend on it. The call does not block; `await hf.emit(…)` does while the
    store is far behind, and so does a call in a plain function. In a tool that is called outside a job the output is
    discarded.
    """
    voice = VOICE.get()
    if voice is None:
        if context.find_drive() is None:
            return Room()
        msg = "hf.emit was called outside a tool or step"
        raise InvalidMove(
            msg,
            hint="Call it inside a tool or step: the agent's own code runs again whenever the job is resumed.",
        )
    check_name(stream, "stream")
    return voice.say(plain(output, "what is said"), stream)
