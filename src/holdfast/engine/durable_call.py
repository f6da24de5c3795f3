"""Durable call: a call that job code makes, its author's policy for repeating it, and the job that it belongs to."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from hashlib import sha256
from typing import Any, Final

import msgspec

from holdfast.errors import HoldfastError
from holdfast.model import canonical
from holdfast.model.limits import INTEGER_MAX, RESULT_BYTES_MAX, RESULT_DEPTH_MAX
from holdfast.model.retry import NO_RETRY, Retry
from holdfast.model.side_effects import QUIET_MARGIN_US, START_WITHIN_US, Effect, ProbeAnswer
from holdfast.model.time import DAY, MINUTE


class ProbeResult(msgspec.Struct, frozen=True):
    """A receiver's answer to a probe about an idempotency key."""

    answer: ProbeAnswer
    result: Any = None


class CallPolicy(msgspec.Struct, frozen=True, kw_only=True):
    """Policy of a call, as its author declared it.

    `relaunch`: a cut-off call is abandoned and made anew, unless `probe` finds its output. `approve` decides from the
    arguments whether a person must approve first. `reads_within_us`: the time limit of a read, if its author sets one;
    recovery needs none, since a cut-off read is repeated. `start_within_us` is how long after its intent the call may
    start, `quiet_margin_us` the margin that is added to its longest duration before the receiver is probed. `retry`:
    how often a failed call is repeated. `sent_nothing`: errors which prove that the receiver got nothing.
    """

    effect: Effect = Effect.UNSAFE
    key_lifetime_us: int | None = None
    probe: Callable[[str, Any], Awaitable[ProbeResult]] | None = None
    longest_call_us: int = 1 * MINUTE
    reads_within_us: int | None = None
    receiver_delay_us: int = 0
    start_within_us: int = START_WITHIN_US
    quiet_margin_us: int = QUIET_MARGIN_US
    relaunch: bool = False
    approve: Callable[[Any], bool] | None = None
    approval_lifetime_us: int = 7 * DAY
    retry: Retry = NO_RETRY
    sent_nothing: tuple[type[Exception], ...] = ()


READS: Final = CallPolicy(effect=Effect.READ_ONLY)


class Owner(msgspec.Struct, frozen=True):
    """The job that calls belong to: its keys, the fence of its writes, and the budgets that its calls count against."""

    namespace: str
    job_id: str
    fence: int
    session_id: str | None = None
    budgets: tuple[str, ...] = ()
    depth: int = 0


class DurableCall(msgspec.Struct, frozen=True):
    """A call as the code makes it. `run` gets the idempotency key. `same` identifies the call, if not all of its
    arguments do."""

    name: str
    args: Any
    run: Callable[[str], Awaitable[Any]]
    terms: CallPolicy = CallPolicy()
    raises: tuple[type[Exception], ...] = ()
    same: Any = msgspec.UNSET

    @property
    def identity(self) -> Any:
        return self.args if self.same is msgspec.UNSET else self.same


def digest_of(identity: Any) -> str:
    """Digest that distinguishes calls under the same key; TooLarge, if the call would not fit into a journal."""
    data = canonical.encode(identity, bytes_max=RESULT_BYTES_MAX, depth_max=RESULT_DEPTH_MAX)
    return sha256(data).hexdigest()


def encode_result(value: Any) -> bytes:
    """Canonical bytes of arguments or of a result; an error, if they do not fit into an event."""
    return canonical.encode(value, bytes_max=RESULT_BYTES_MAX, depth_max=RESULT_DEPTH_MAX)


def check_result(value: Any) -> None:
    """Raises an error if the value does not fit into an event. Values that certainly fit are not encoded."""
    kind = type(value)
    if value is None or kind is bool or (kind is int and -INTEGER_MAX <= value <= INTEGER_MAX):
        return
    encode_result(value)


class Unstorable(msgspec.Struct, frozen=True):
    """Return value of a call whose result cannot be stored. The call has happened nevertheless."""

    error: HoldfastError


def keep_value(value: Any) -> tuple[Any, Exception | None]:
    """Returns the value as a replay returns it, or the error why it cannot be stored."""
    value, _, error = encode_value(value)
    return value, error


def encode_value(value: Any) -> tuple[Any, bytes | None, Exception | None]:
    """Returns the value as a replay returns it, its bytes, and the error if it cannot be stored."""
    if type(value) is Unstorable:
        return None, None, value.error
    try:
        data = canonical.encode(value, bytes_max=RESULT_BYTES_MAX, depth_max=RESULT_DEPTH_MAX)
        return canonical.decode_stored(data), data, None
    except HoldfastError as error:
        return None, None, error
