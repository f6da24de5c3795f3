"""Durable call: what the job's code asks for, what its author declared about repeating it, and whose call it is."""

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
    """What a receiver said about a key."""

    answer: ProbeAnswer
    result: Any = None


class CallPolicy(msgspec.Struct, frozen=True, kw_only=True):
    """What the author declared about a call.

    `relaunch`: a call that was cut off is given up and made anew, unless `probe` finds its output. `approve` says of
    the arguments whether a person must agree first. `reads_within_us`: how long a read may take, if its author cares;
    it is simply made again. `start_within_us` is how long after its intent the call may start, `quiet_margin_us` what
    is added to its longest time before anybody asks the receiver. `retry`: how often a call that failed is made.
    `sent_nothing`: errors that say that the receiver got nothing.
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
    """Whose calls these are: what keys are made of, the fence they are written under, and who pays for them."""

    namespace: str
    job_id: str
    fence: int
    session_id: str | None = None
    budgets: tuple[str, ...] = ()
    depth: int = 0


class DurableCall(msgspec.Struct, frozen=True):
    """A call as the code makes it. `run` gets the idempotency key. `same` is what makes it the same call again, if
    that is not all of its arguments."""

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
    """What tells a call from another under the same key; TooLarge, if its fact would fit no journal."""
    data = canonical.encode(identity, bytes_max=RESULT_BYTES_MAX, depth_max=RESULT_DEPTH_MAX)
    return sha256(data).hexdigest()


def encode_result(value: Any) -> bytes:
    """The canonical bytes of arguments or of a result; an error, if they would not fit into an event."""
    return canonical.encode(value, bytes_max=RESULT_BYTES_MAX, depth_max=RESULT_DEPTH_MAX)


def check_result(value: Any) -> None:
    """An error, if the value would not fit into an event. One that fits for certain is not written to see that."""
    kind = type(value)
    if value is None or kind is bool or (kind is int and -INTEGER_MAX <= value <= INTEGER_MAX):
        return
    encode_result(value)


class Unstorable(msgspec.Struct, frozen=True):
    """What a call returns whose result cannot be stored. The call has happened all the same."""

    error: HoldfastError


def keep_value(value: Any) -> tuple[Any, Exception | None]:
    """The value as a replay will give it, from the first time on; or why it cannot be kept."""
    value, _, error = encode_value(value)
    return value, error


def encode_value(value: Any) -> tuple[Any, bytes | None, Exception | None]:
    """The same, and the bytes that a replay will read it from."""
    if type(value) is Unstorable:
        return None, None, value.error
    try:
        data = canonical.encode(value, bytes_max=RESULT_BYTES_MAX, depth_max=RESULT_DEPTH_MAX)
        return canonical.decode_stored(data), data, None
    except HoldfastError as error:
        return None, None, error
