"""Model requests: reads that cost money, and whose answers come word by word.

    recorded with an answer     the recorded answer: nothing is sent, nothing is paid
    recorded, cut off           sent again, as the next attempt of the same request
    not recorded                sent; the request is recorded before it is sent, the answer when it is complete

A model's answer is paid for. So unlike other reads it is on disk before the code continues: a commit is short beside
the time that a model takes, and an answer that has arrived is never bought again.

An error of the provider about a request (it is malformed, the key is wrong) is an answer too: code that catches it
catches it again in replay. If it ends the attempt, the next attempt sends the request anew.

Repurchase: the identity of a request is its digest. If the code makes a request under a step key that has an answer to
another request, something in it is not the same in every run: the time, a random id, the order of a set. The answer
would be bought again at every resume, so the fields that differ are reported, as an event and in the log.
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
from holdfast.engine.streams import AttemptOutput
from holdfast.engine.task_scopes import TaskScope
from holdfast.engine.telemetry import TimedOperation
from holdfast.errors import HoldfastError
from holdfast.model import canonical
from holdfast.model.append import Extras
from holdfast.model.events import CallRetried, LlmRepurchased, LlmRequested, LlmResponded
from holdfast.model.limits import BLOB_BYTES_MAX
from holdfast.model.replay_history import Recorded
from holdfast.model.side_effects import CallStatus
from holdfast.model.time import SECOND

AWAKE_US: Final = 5 * SECOND
"""For a wait up to this long the job is not suspended."""

PIECE: Final = 16 * 1024

FIELDS_MAX: Final = 8
FIELD_LENGTH_MAX: Final = 120

log = logging.getLogger("holdfast.models")


class Request(msgspec.Struct, frozen=True):
    """A request to a model. `name` is the step's; `params` is the request without its messages, in canonical bytes.

    `after` names what the messages follow, if they are stored elsewhere: a session, whose messages are not stored
    again. `ignored` are fields of `params` that do not make it another request: they are stored, and not part of its
    identity.
    """

    name: str
    model: str
    params: bytes
    messages: tuple[bytes, ...]
    after: str = ""
    ignored: frozenset[str] = frozenset()
    reduced: bytes | None = None
    """`params` without the ignored fields, if it has any of them."""
    messages_field: str = "messages"

    @property
    def identity(self) -> bytes:
        """The part of `params` that identifies the request."""
        return self.params if self.reduced is None else self.reduced


class ModelAnswer(msgspec.Struct, frozen=True):
    """Outcome of a request: a response and its usage, or the provider's error."""

    response: Any = None
    usage: Any = None
    error: Any = None


class ModelCall:
    """One request at one place in the code. Made by `open_request`."""

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
        self._voice: AttemptOutput | None = None
        self._timed: TimedOperation | None = None

    async def check_repurchase(self, *, park: bool) -> None:
        """Checks for a recorded answer under this key to a request that differs. If there is one, reports the
        repurchase, or parks the job."""
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
        """Waits until every budget of the job allows the request."""
        await self._execution.afford(self._place, self.step_key, ONE_ANSWER)

    def begin(self) -> None:
        """Records that the request is about to be sent, perhaps again. Does not wait for the disk."""
        execution = self._execution
        execution.check_lease()
        self.attempt += 1
        parts, blobs, after = self._find_new_parts() if self.attempt == 1 else ((), (), "")
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

    def _find_new_parts(self) -> tuple[tuple[str, ...], tuple[bytes, ...], str]:
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
        """Marks the code in the block as the client's, not the job's; the job is not suspended meanwhile."""
        self._execution.check_running()
        with self._execution.busy(), self._place.within(self.step_key):
            yield

    def say(self, text: str, stream: str) -> None:
        """Emits text to the job's stream, in pieces if it is long."""
        if self._voice is not None:
            for start in range(0, len(text), PIECE):
                self._voice.say(text[start : start + PIECE], stream)

    def record_failure(self, error: Exception, attempts: int, next_at: int) -> None:
        """Records a failed attempt, of `attempts` in all, and when the next one is due."""
        self._end_attempt("again")
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
        """Waits until this time. If that is long, the job is suspended meanwhile."""
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
        """Records the answer, and returns when it is on disk and it is the code's turn to get it."""
        self._end_attempt(
            *(("answered", answer.usage) if answer.error is None else ("refused", answer.error))
        )
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
        await self._execution.wait_until_durable(stamp)
        await self._execution.turn(stamp.seq, stamp.at)

    async def record_cancelled(self) -> None:
        """Records that the code cancelled the request; not if the run is being ended."""
        self._end_attempt("given_up")
        await self._execution.record_cancelled(self.step_key, self._digest, self._generation)

    @property
    def stopped(self) -> bool:
        """Whether the run is being ended: then a cancel is not the code's decision, and is not recorded."""
        return self._execution.stopping

    @contextmanager
    def leaving(self) -> Iterator[None]:
        """Lets the client return its connection in the block, also while the run is being ended."""
        with self._place.within(self.step_key):
            yield

    def chance(self) -> float:
        """A number from 0 to 1 that differs between jobs, places and attempts: retries do not come at the same time."""
        drawn = canonical.digest(f"{self._execution.owner.job_id}/{self.step_key}/{self.attempt}".encode())
        return int.from_bytes(drawn[:6]) / 2**48

    def note_error(self, error: Exception) -> Exception:
        """Remembers that this request raised the error: if it ends the attempt, the next attempt repeats
        the request."""
        return self._execution.note_error(error, self.step_key)

    def _end_attempt(self, how: str, detail: Any = None) -> None:
        """Ends this attempt: closes its output and its timing."""
        if self._timed is not None:
            self._timed.over(how, detail)
            self._timed = None
        if self._voice is not None:
            self._voice.is_over = True


async def open_request(execution: Execution, request: Request) -> ModelCall:
    """Identifies the request by its place in the code; with its answer, if one is recorded."""
    place = execution.place()
    key = place.scope.key(request.name)
    digest = _digest_of(request)
    recorded = execution.history.find(key, digest) or await execution.adopt(key, digest)
    if recorded is not None:
        key = recorded.step_key
    asking = ModelCall(execution, place, request, key, digest, recorded)
    if recorded is not None and recorded.settled:
        if await execution.wait_for_outcome(recorded):
            failed = recorded.status is CallStatus.FAILED
            asking.answer = ModelAnswer(error=recorded.error) if failed else ModelAnswer(recorded.result)
            execution.meter.record_replay()
            return asking
        if recorded.intent_seq is None:  # it was cancelled before it was sent
            asking = ModelCall(execution, place, request, key, digest, None)
    await execution.wait_unless_winding_down()
    return asking


def _digest_of(request: Request) -> str:
    parts = [canonical.digest(body) for body in (request.identity, *request.messages)]
    name = f"{request.model}/{request.after}".encode("utf-8", "surrogatepass")
    return canonical.hex_digest(b"".join([name, *parts]))


# ── repurchase ────────────────────────────────────────────────────────────────────────────────────


async def _find_differences(execution: Execution, request: Request, recorded: Recorded) -> tuple[str, ...]:
    """The fields in which a request differs from the recorded one; none, if the recorded one is not available any
    more."""
    fields = ["model"] if recorded.name != request.model else []
    parts, is_continued = execution.history.request_parts(recorded)
    if not parts or (is_continued and not request.after):
        return tuple(fields)  # it begins before the last checkpoint
    settings, *messages = parts
    if settings != canonical.hex_digest(request.params):
        paths = _compare(await _load(execution, settings), canonical.decode_stored(request.params), "")
        fields += [path for path in paths if _top_field(path) not in {*request.ignored, "model"}]
    if request.after:  # its messages are in the session, not in this journal
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
    """A part of a recorded request; None, if it is not stored any more."""
    try:
        assert execution.store is not None
        data = await execution.store.blobs.get(digest, namespace=execution.owner.namespace)
        return canonical.decode(data, bytes_max=BLOB_BYTES_MAX)
    except (HoldfastError, AssertionError):
        return None


def _compare(recorded: Any, now: Any, path: str) -> Iterator[str]:
    """The paths at which two JSON values differ."""
    if isinstance(recorded, dict) and isinstance(now, dict):
        for key in sorted(recorded.keys() | now.keys()):
            yield from _compare(recorded.get(key), now.get(key), f"{path}.{key}" if path else key)
    elif isinstance(recorded, list) and isinstance(now, list) and len(recorded) == len(now):
        for index, (recorded_item, current_item) in enumerate(zip(recorded, now, strict=True)):
            yield from _compare(recorded_item, current_item, f"{path}[{index}]")
    elif recorded != now and path:
        yield path


def _warn_repurchase(execution: Execution, request: Request, step_key: str, fields: tuple[str, ...]) -> None:
    """Logs that a recorded answer is bought again, and what to do."""
    log.warning(
        "job %s buys a recorded answer again: the request %s to %s differs in %s. Make it the same in every run"
        " (hf.now, hf.uuid, a step), or leave the field out of its identity: hf.wrap(client, ignore=(…,)).",
        execution.owner.job_id,
        step_key,
        request.model,
        ", ".join(fields) or "its contents",
    )
