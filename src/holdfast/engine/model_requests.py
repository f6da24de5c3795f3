"""Requests to models: reads that cost money, and answers that come word by word.

    asked for, answered on record     the record: nothing is sent, nothing is paid
    asked for, cut off                asked again, as the next attempt of the same request
    asked for, not recorded           asked; the request is a fact before it is sent, the answer one when it is whole

A model's answer is paid for. So unlike other reads it is on disk before the code goes on: a commit is nothing beside
the time that a model takes, and an answer that was heard is never bought again.

What the provider says against a request (it is malformed, the key is wrong) is an answer too: the code that catches it
catches it again in replay. If it ends the attempt, the next one asks anew.

Repurchase: the identity of a request is its digest. If the code makes a request under a step key that has an answer to
another request, something in it is not the same in every run: the time, a random id, the order of a set. The answer
would be bought again at every resume, so it is said: which fields differ, as an event and in the log.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

import msgspec

from holdfast.engine import failures
from holdfast.engine.budgets import ONE_ANSWER
from holdfast.engine.execution import Execution
from holdfast.engine.run_outcomes import Stopped
from holdfast.engine.streams import Voice
from holdfast.engine.task_scopes import TaskScope
from holdfast.engine.telemetry import Timed
from holdfast.errors import HoldfastError
from holdfast.model import canonical
from holdfast.model.append import Extras
from holdfast.model.events import CallRetried, LlmRepurchased, LlmRequested, LlmResponded
from holdfast.model.limits import BLOB_BYTES_MAX
from holdfast.model.replay_history import Recorded
from holdfast.model.side_effects import CallStatus
from holdfast.model.time import SECOND

AWAKE_US: Final = 5 * SECOND
"""A rest up to this long is not worth giving a job back for."""

PIECE: Final = 16 * 1024

FIELDS_MAX: Final = 8
FIELD_LENGTH_MAX: Final = 120

log = logging.getLogger("holdfast.models")


class Request(msgspec.Struct, frozen=True):
    """What is asked. `name` is the step's; `params` is the request without its messages, in canonical bytes.

    `after` names what the messages follow, if that is kept elsewhere: a session, whose messages are not stored again.
    `ignored` are fields of `params` that do not make it another request: they are stored, and not part of its identity.
    """

    name: str
    model: str
    params: bytes
    messages: tuple[bytes, ...]
    after: str = ""
    ignored: frozenset[str] = frozenset()
    reduced: bytes | None = None
    """`params` without the fields that are ignored, if it has any of them."""
    messages_field: str = "messages"

    @property
    def identity(self) -> bytes:
        """What of `params` makes it this request."""
        return self.params if self.reduced is None else self.reduced


class ModelAnswer(msgspec.Struct, frozen=True):
    """What came of it: a response and what it used up, or what was said against the request."""

    response: Any = None
    usage: Any = None
    error: Any = None


class Asking:
    """One request at one place in the code. Made by `ask`."""

    def __init__(
        self,
        execution: Execution,
        place: TaskScope,
        request: Request,
        step_key: str,
        digest: str,
        recorded: Recorded | None,
    ) -> None:
        self.step_key = step_key
        self.answer: ModelAnswer | None = None
        self.attempt = recorded.attempt if recorded else 0
        self.failed_attempts = recorded.failed_attempts if recorded else 0
        self.retry_at = recorded.retry_at if recorded else 0
        """When the next attempt is due, if one has failed."""
        self._execution = execution
        self._place = place
        self._request = request
        self._digest = digest
        self._generation = recorded.generation if recorded else execution.history.next_generation(step_key)
        self._voice: Voice | None = None
        self._timed: Timed | None = None

    async def check_repurchase(self, *, park: bool) -> None:
        """If an answer is on record under this key, to a request that differs, that is said; or the job is parked."""
        execution, digest = self._execution, self._digest
        recorded = None if self.attempt else execution.history.find_answered_request(self.step_key, digest)
        if recorded is None:
            return
        with self.working():
            fields = await _find_differences(execution, self._request, recorded)
        if park:
            execution.park_repurchase(self._request.name, self.step_key, digest, recorded, fields)
            raise Stopped
        execution.note(
            LlmRepurchased(self.step_key, self._request.model, fields, digest, recorded.generation)
        )
        _warn_repurchase(execution, self._request, self.step_key, fields)

    async def afford(self) -> None:
        """No budget stands against asking. Until then the code waits."""
        await self._execution.afford(self._place, self.step_key, ONE_ANSWER)

    def begin(self) -> None:
        """It is a fact that the model is about to be asked, once more perhaps. It is on its way to the disk."""
        execution = self._execution
        execution.must_be_covered()
        self.attempt += 1
        parts, blobs, after = self._news() if self.attempt == 1 else ((), (), "")
        event = LlmRequested(
            self.step_key,
            self._request.model,
            parts,
            self._digest,
            attempt=self.attempt,
            generation=self._generation,
            after=after,
        )
        execution.note(event, extras=Extras(blobs=blobs))
        self._voice = None if execution.outlet is None else execution.outlet.voice(self.step_key)
        self._timed = execution.meter.model(execution.owner, self._request.model, self.step_key)

    def _news(self) -> tuple[tuple[str, ...], tuple[bytes, ...], str]:
        """The parts that no earlier request had: their digests, their bytes, and the request that had the others."""
        if self._request.after:
            return (canonical.hex_digest(self._request.params),), (self._request.params,), self._request.after
        bodies = (self._request.params, *self._request.messages)
        parts = tuple(canonical.hex_digest(body) for body in bodies)
        last = self._execution.history.request
        if last is not None and parts[: len(last.parts)] == last.parts:
            return parts[len(last.parts) :], bodies[len(last.parts) :], last.place
        return parts, bodies, ""

    @contextmanager
    def working(self) -> Iterator[None]:
        """In the block it is the client's code that runs, not the job's, and the job stays awake for it."""
        self._execution.must_go_on()
        with self._execution.busy(), self._place.within(self.step_key):
            yield

    def say(self, text: str, stream: str) -> None:
        """Whoever watches the job hears it, in pieces if it is long."""
        if self._voice is not None:
            for start in range(0, len(text), PIECE):
                self._voice.say(text[start : start + PIECE], stream)

    def record_failure(self, error: Exception, attempts: int, next_at: int) -> None:
        """An attempt has failed, of so many in all; the next one is due then."""
        self._over("again")
        self.failed_attempts, self.retry_at = self.failed_attempts + 1, next_at
        event = CallRetried(
            self.step_key,
            self._digest,
            self.failed_attempts,
            attempts,
            next_at,
            generation=self._generation,
            error=failures.record_error(error),
        )
        self._execution.note(event)

    async def rest(self, until_us: int) -> None:
        """The instant has come. If that takes long, nobody holds the job meanwhile."""
        if until_us <= self.now_us():
            return
        if until_us - self.now_us() > AWAKE_US:
            await self._execution.waits.until(until_us)
            return
        with self._execution.busy():
            await self._execution.waits.until(until_us)

    def now_us(self) -> int:
        return self._execution.clock.wall_us()

    async def record_answer(self, answer: ModelAnswer) -> None:
        """The answer is on disk, and it is the code's turn to have it."""
        self._over(*(("answered", answer.usage) if answer.error is None else ("refused", answer.error)))
        self.answer = answer
        event = LlmResponded(
            self.step_key,
            answer.response,
            answer.usage,
            attempt=self.attempt,
            generation=self._generation,
            error=answer.error,
        )
        stamp = self._execution.note(event, progress=True)
        await self._execution.on_disk(stamp)
        await self._execution.turn(stamp.seq, stamp.at)

    async def record_cancelled(self) -> None:
        """It is a fact that the code did not wait for the answer, unless it is we who stop the code."""
        self._over("given_up")
        await self._execution.record_cancelled(self.step_key, self._digest, self._generation)

    @property
    def stopped(self) -> bool:
        """Whether it is we who end the code: then what it leaves undone is not its decision, and no fact."""
        return self._execution.stopping

    @contextmanager
    def leaving(self) -> Iterator[None]:
        """In the block the client gives its connection back; that is not stopped by the end of the run."""
        with self._place.within(self.step_key):
            yield

    def chance(self) -> float:
        """A number from 0 to 1 that differs between jobs, places and attempts: nobody comes back together."""
        drawn = canonical.digest(f"{self._execution.owner.job_id}/{self.step_key}/{self.attempt}".encode())
        return int.from_bytes(drawn[:6]) / 2**48

    def note_error(self, error: Exception) -> Exception:
        """The error, as this request's: if it ends the attempt, the model is asked again in the next."""
        return self._execution.note_error(error, self.step_key)

    def _over(self, how: str, detail: Any = None) -> None:
        """Nobody hears the rest of this attempt, and whoever times it knows how it ended."""
        if self._timed is not None:
            self._timed.over(how, detail)
            self._timed = None
        if self._voice is not None:
            self._voice.is_over = True


async def ask(execution: Execution, request: Request) -> Asking:
    """The request has its place in the code, and its answer, if that is on record."""
    place = execution.place()
    key = place.scope.key(request.name)
    digest = _digest_of(request)
    recorded = execution.history.find(key, digest) or await execution.adopt(key, digest)
    if recorded is not None:
        key = recorded.step_key
    asking = Asking(execution, place, request, key, digest, recorded)
    if recorded is not None and recorded.settled:
        if await execution.past(recorded):
            failed = recorded.status is CallStatus.FAILED
            asking.answer = ModelAnswer(error=recorded.error) if failed else ModelAnswer(recorded.result)
            execution.meter.record_replay()
            return asking
        if recorded.intent_seq is None:  # it was given up before it was sent
            asking = Asking(execution, place, request, key, digest, None)
    await execution.unless_winding_down()
    return asking


def _digest_of(request: Request) -> str:
    parts = [canonical.digest(body) for body in (request.identity, *request.messages)]
    name = f"{request.model}/{request.after}".encode("utf-8", "surrogatepass")
    return canonical.hex_digest(b"".join([name, *parts]))


# ── repurchase ────────────────────────────────────────────────────────────────────────────────────


async def _find_differences(execution: Execution, request: Request, recorded: Recorded) -> tuple[str, ...]:
    """The fields in which a request differs from the recorded one; none, if that cannot be read any more."""
    fields = ["model"] if recorded.name != request.model else []
    parts, is_continued = execution.history.request_parts(recorded)
    if not parts or (is_continued and not request.after):
        return tuple(fields)  # it begins before the last commit
    settings, *messages = parts
    if settings != canonical.hex_digest(request.params):
        paths = _compare(await _load(execution, settings), canonical.decode_stored(request.params), "")
        fields += [path for path in paths if _top_field(path) not in {*request.ignored, "model"}]
    if request.after:  # its messages are the session's, and not in this journal
        return _shorten(fields or [request.messages_field])
    if len(messages) != len(request.messages):
        fields.append(f"{request.messages_field} ({len(messages)} recorded, {len(request.messages)} now)")
    for index, (digest, body) in enumerate(zip(messages, request.messages, strict=False)):
        if len(fields) < FIELDS_MAX and digest != canonical.hex_digest(body):
            place = f"{request.messages_field}[{index}]"
            fields += _compare(await _load(execution, digest), canonical.decode_stored(body), place)
    return _shorten(fields)


def _shorten(fields: list[str]) -> tuple[str, ...]:
    return tuple(field[:FIELD_LENGTH_MAX] for field in fields[:FIELDS_MAX])


def _top_field(path: str) -> str:
    return path.partition(".")[0].partition("[")[0]


async def _load(execution: Execution, digest: str) -> Any:
    """A part of a recorded request; None, if it is not there any more."""
    try:
        assert execution.store is not None
        data = await execution.store.blobs.get(digest, namespace=execution.owner.namespace)
        return canonical.decode(data, bytes_max=BLOB_BYTES_MAX)
    except (HoldfastError, AssertionError):
        return None


def _compare(recorded: Any, now: Any, path: str) -> Iterator[str]:
    """The places in which two JSON values differ."""
    if isinstance(recorded, dict) and isinstance(now, dict):
        for key in sorted(recorded.keys() | now.keys()):
            yield from _compare(recorded.get(key), now.get(key), f"{path}.{key}" if path else key)
    elif isinstance(recorded, list) and isinstance(now, list) and len(recorded) == len(now):
        for index, (recorded_item, current_item) in enumerate(zip(recorded, now, strict=True)):
            yield from _compare(recorded_item, current_item, f"{path}[{index}]")
    elif recorded != now and path:
        yield path


def _warn_repurchase(execution: Execution, request: Request, step_key: str, fields: tuple[str, ...]) -> None:
    """Says in the log that a recorded answer is bought again, and what to do."""
    log.warning(
        "job %s buys a recorded answer again: the request %s to %s differs in %s. Make it the same in every run"
        " (hf.now, hf.uuid, a step), or leave the field out of its identity: hf.wrap(client, ignore=(…,)).",
        execution.owner.job_id,
        step_key,
        request.model,
        ", ".join(fields) or "its contents",
    )
