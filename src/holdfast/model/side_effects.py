"""Recovery of side effects: what may be done with a call that was interrupted, as one function.

A crash leaves *nothing*, *intent only*, or *intent and result*. After "intent only" the journal cannot tell whether the
effect happened: the record that would say so is exactly the one that was not written. So the decision does not come
from our own data. It comes from what the author declared:

    read_only    run it again; the recorded result wins
    idempotent   send it again under the same key, while the receiver still remembers keys
    verifiable   wait until no sleeping worker can still send, then probe the receiver
    unsafe       stop, and ask a person

`recover` never guesses: every branch without certain knowledge ends in ASK.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Final

import msgspec

from holdfast.errors import InvalidSetting
from holdfast.model.time import SECOND


class Effect(StrEnum):
    READ_ONLY = "read_only"
    IDEMPOTENT = "idempotent"
    VERIFIABLE = "verifiable"
    UNSAFE = "unsafe"


class CallStatus(StrEnum):
    """Status of a ledger row. `prepared` is an intent without an outcome."""

    PREPARED = "prepared"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    UNCERTAIN = "uncertain"
    ABANDONED = "abandoned_on_resume"
    SKIPPED = "skipped"


class Outcome(StrEnum):
    """Outcome of a call. `refused`: the receiver certainly did nothing. `ambiguous`: everything else."""

    SUCCEEDED = "succeeded"
    REFUSED = "refused"
    AMBIGUOUS = "ambiguous"


class ProbeAnswer(StrEnum):
    """Answer of a probe. A probe that fails or times out counts as `cannot_tell`."""

    HAPPENED = "happened"
    NOT_HAPPENED = "not_happened"
    CANNOT_TELL = "cannot_tell"


class Recovery(StrEnum):
    RUN = "run"
    RESEND = "resend"
    WAIT = "wait"
    PROBE = "probe"
    ADOPT = "adopt"
    ASK = "ask"
    RELAUNCH = "relaunch"
    USE_RECORD = "use_record"
    NEW_GENERATION = "new_generation"


SETTLED: Final = frozenset(
    {CallStatus.SUCCEEDED, CallStatus.FAILED, CallStatus.ABANDONED, CallStatus.SKIPPED}
)

CALL_MOVES: Final[dict[CallStatus | None, frozenset[CallStatus]]] = {
    None: frozenset({CallStatus.PREPARED, CallStatus.SUCCEEDED, CallStatus.FAILED}),
    CallStatus.PREPARED: frozenset(
        {
            CallStatus.PREPARED,
            CallStatus.SUCCEEDED,
            CallStatus.FAILED,
            CallStatus.UNCERTAIN,
            CallStatus.ABANDONED,
            CallStatus.SKIPPED,
        }
    ),
    CallStatus.UNCERTAIN: frozenset(
        {
            CallStatus.PREPARED,
            CallStatus.SUCCEEDED,
            CallStatus.FAILED,
            CallStatus.ABANDONED,
            CallStatus.SKIPPED,
        }
    ),
    CallStatus.SUCCEEDED: frozenset(),
    CallStatus.FAILED: frozenset(),
    CallStatus.ABANDONED: frozenset(),
    CallStatus.SKIPPED: frozenset(),
}
"""Ledger status → statuses that may follow. A settled row never changes: a new attempt is a new generation, a new row.
"""

DECIDED: Final = {
    "happened": CallStatus.SUCCEEDED,
    "not_happened": CallStatus.ABANDONED,
    "skip": CallStatus.SKIPPED,
    "fail": CallStatus.FAILED,
    "relaunch": CallStatus.ABANDONED,
}
"""The status that a person's decision gives to an uncertain call."""

KEY_LIFETIME_USED_PERCENT: Final = 80
"""A key is trusted for this percentage of the time that the receiver remembers it; the rest is margin for clocks and
slow requests."""

START_WITHIN_US: Final = 20 * SECOND
"""How long after its intent a call may start: well inside the lease that covers it."""

QUIET_MARGIN_US: Final = 5 * SECOND
"""Added to the longest call, for a request that the network delayed."""

NAMES_ELSEWHERE: Final = {"external": Effect.UNSAFE, "local": Effect.VERIFIABLE, "memory": Effect.IDEMPOTENT}


def quiet_at(
    start_by: int | None,
    longest_call_us: int | None,
    receiver_delay_us: int = 0,
    margin_us: int = QUIET_MARGIN_US,
) -> int:
    """The time from which no earlier holder of the job can still be sending: only then can "it did not happen" be
    known."""
    return (start_by or 0) + (longest_call_us or 0) + receiver_delay_us + margin_us


class CutOff(msgspec.Struct, frozen=True, kw_only=True):
    """Everything recovery knows about an interrupted call whose intent is durable."""

    effect: Effect
    status: CallStatus
    key_age_us: int = 0
    key_lifetime_us: int | None = None
    has_probe: bool = False
    relaunch: bool = False
    quiet: bool = False
    answer: ProbeAnswer | None = None
    attempts_left: bool = True
    sent_nothing: bool = False


def recover(call: CutOff) -> Recovery:
    """What recovery may do with the call now.

    WAIT means: not yet, an earlier holder of the job might still send. NEW_GENERATION means: this row is closed and has
    no result to use; a new attempt is a new row under a new key. RELAUNCH closes it first. An `uncertain` call stays
    uncertain, whatever its class and however much time passes, until a probe answers HAPPENED or NOT_HAPPENED. If a
    call did not happen in any of its attempts, a person decides.
    """
    if call.status is CallStatus.ABANDONED:
        return Recovery.NEW_GENERATION
    if call.status in SETTLED:
        return Recovery.USE_RECORD
    if call.status is CallStatus.UNCERTAIN:
        return Recovery.ASK if call.answer is None else _recover_by_probe(call)
    if call.sent_nothing:
        return Recovery.RESEND
    if call.relaunch:
        return _recover_by_output(call)
    if call.effect is Effect.READ_ONLY:
        return Recovery.RUN
    if call.effect is Effect.IDEMPOTENT and _key_is_remembered(call):
        return Recovery.RESEND
    return _recover_by_probe(call)


def _key_is_remembered(call: CutOff) -> bool:
    """Whether the receiver still remembers the key. The birth of a key is known to within the time that its worker's
    claim took, so after a takeover it may be slightly in the future; the unused part of the lifetime covers that. A key
    from further in the future means that a clock was set back: its age is then unknown."""
    if call.key_lifetime_us is None:
        return True
    used_us = call.key_lifetime_us * KEY_LIFETIME_USED_PERCENT // 100
    return used_us - call.key_lifetime_us <= call.key_age_us <= used_us


def _recover_by_output(call: CutOff) -> Recovery:
    """Recovery of a call that its author lets start again: a valid output that exists is used instead."""
    if call.has_probe and call.answer is None:
        return Recovery.PROBE
    return Recovery.ADOPT if call.answer is ProbeAnswer.HAPPENED else Recovery.RELAUNCH


def _recover_by_probe(call: CutOff) -> Recovery:
    if call.effect not in {Effect.IDEMPOTENT, Effect.VERIFIABLE} or not call.has_probe:
        return Recovery.ASK
    if not call.quiet:
        return Recovery.WAIT
    match call.answer:
        case None:
            return Recovery.PROBE
        case ProbeAnswer.HAPPENED:
            return Recovery.ADOPT
        case ProbeAnswer.NOT_HAPPENED:
            return Recovery.RESEND if call.attempts_left else Recovery.ASK
        case ProbeAnswer.CANNOT_TELL:
            return Recovery.ASK


def parse_effect(text: str | None) -> Effect:
    """The declared class; without a declaration `unsafe`, because a missing declaration must never repeat a side
    effect."""
    if text is None:
        return Effect.UNSAFE
    try:
        return NAMES_ELSEWHERE.get(text) or Effect(text)
    except ValueError:
        msg = f"{text!r} is not a side-effect class"
        raise InvalidSetting(
            msg, hint=f"Declare one of {', '.join(Effect)}; nothing declared is unsafe."
        ) from None
