"""Facts in their places: numbered, timed, fenced, and chained so that none can be changed, lost or put in between.

    hash(n) = SHA-256( hash(n-1) ‖ SHA-256(body) ‖ "job/seq/type/version/fence/at" )

The chain covers the *digest* of a body, not the body, so that a payload can be erased and its chain still verifies. The
head (seq and hash of the last event) therefore stands for the whole history: two journals with the same head are the
same, which is how a writer recognises its own append after a lost reply.
"""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Final

import msgspec

from holdfast.errors import InvalidPayload, SchemaMismatch, StoreCorrupt
from holdfast.model import canonical, redaction
from holdfast.model.envelope import must_be_open
from holdfast.model.events import EVENTS, Event, StepFinished
from holdfast.model.limits import JSON_DEPTH_MAX, PAYLOAD_INLINE_BYTES

GENESIS: Final = bytes(32)
_PLAIN_NAMES_MAX: Final = 10_000
_OTHER_VERSION: Final = "Read this job with the version of Holdfast that wrote it, or a newer one."


class Head(msgspec.Struct, frozen=True, gc=False):
    """The last event's place and hash: a whole history in forty bytes."""

    seq: int
    hash: bytes


EMPTY: Final = Head(0, GENESIS)


class SealedEvent(msgspec.Struct, frozen=True, gc=False):
    """An event as it lies in the journal: placed, timed, fenced, hashed. `body` is None once it was erased."""

    seq: int
    type: str
    version: int
    fence: int
    at: int
    body: bytes | None
    body_digest: bytes
    hash: bytes


def body_of(event: Event) -> bytes:
    """The canonical body; fields that hold their default are left out, so adding a field changes no old hash."""
    fields = zip(_fields(type(event)), msgspec.structs.astuple(event), strict=True)
    return canonical.encode(
        {name: value for (name, default), value in fields if value is not default and value != default}
    )


def body_of_step(step: StepFinished, result: bytes) -> bytes:
    """The same of a step whose result was written before: `result` are its canonical bytes, without the secrets. The
    usual one is put together from what is there; all others take the long way."""
    key, digest = step.step_key, step.args_digest
    if (
        len(result) > PAYLOAD_INLINE_BYTES
        or result.count(b"[") + result.count(b"{") >= JSON_DEPTH_MAX
        or step.result is None
        or step.error is not None
        or step.generation != 0
        or step.outcome != "succeeded"
        or not (digest.isascii() and digest.isalnum())
        or not _is_plain_key(key)
    ):
        return body_of(step)
    return b'{"args_digest":"%b","result":%b,"step_key":"%b"}' % (digest.encode(), result, key.encode())


def _is_plain_key(key: str) -> bool:
    """Whether the key stands in JSON as it is, and no secret is in it."""
    rules = redaction.current
    name, _, number = key.rpartition("#")
    if name in rules.plain_names and number.isdecimal() and number.isascii():
        return True
    is_plain = key.isascii() and key.isprintable() and '"' not in key and "\\" not in key
    if not is_plain or rules.suspects(key.encode()):
        return False
    if rules.looks_for_shapes_only and len(rules.plain_names) < _PLAIN_NAMES_MAX:
        # A number behind its "#" is in no shape of a secret: the next call of this name need not be looked at.
        rules.plain_names.add(name)
    return True


@functools.cache
def _fields(kind: type[Event]) -> tuple[tuple[str, Any], ...]:
    return tuple((field.name, field.default) for field in msgspec.structs.fields(kind))


def chain(
    previous: bytes, body_digest: bytes, job_id: str, seq: int, type_: str, version: int, fence: int, at: int
) -> bytes:
    """The hash of one event, given the hash before it."""
    place = f"{job_id}/{seq}/{type_}/{version}/{fence}/{at}"
    return hashlib.sha256(previous + body_digest + place.encode()).digest()


def seal(
    job_id: str,
    head: Head,
    fence: int,
    at: int | Sequence[int],
    events: Iterable[Event],
    bodies: Sequence[bytes | None] | None = None,
) -> tuple[tuple[SealedEvent, ...], Head]:
    """The events placed after `head`, and the head they lead to. `at` is the time of all of them, or of each; `bodies`:
    of those that are written out already."""
    sealed = []
    seq, link = head.seq, head.hash
    events = list(events)
    times = [at] * len(events) if isinstance(at, int) else at
    sha256 = hashlib.sha256
    made = [None] * len(events) if bodies is None else bodies
    for event, known, event_at in zip(events, made, times, strict=True):
        body = body_of(event) if known is None else known
        digest = sha256(body).digest()
        seq += 1
        type_, version = event.type, event.version
        # As `chain` has it, written out: every fact passes here.
        place = f"{job_id}/{seq}/{type_}/{version}/{fence}/{event_at}"
        link = sha256(link + digest + place.encode()).digest()
        sealed.append(SealedEvent(seq, type_, version, fence, event_at, body, digest, link))
    return tuple(sealed), Head(seq, link)


def unseal(sealed: SealedEvent) -> Event:
    """The fact inside; refuses what this version of Holdfast does not know, and a body that is not the sealed one.

    Bytes that fit their digest are the ones `body_of` wrote, so they are read without being checked a second time.
    """
    kind = EVENTS.get(sealed.type)
    if kind is None or not 1 <= sealed.version <= kind.version:
        known = f"up to version {kind.version}" if kind else "no event of that type"
        msg = f"event {sealed.seq} is {sealed.type} version {sealed.version}; this Holdfast knows {known}"
        raise SchemaMismatch(msg, hint=_OTHER_VERSION)
    if sealed.body is None:
        msg = f"the body of event {sealed.seq} ({sealed.type}) was erased"
        raise InvalidPayload(
            msg, hint="It was erased by retention; its digest is kept, and the hash chain verifies."
        )
    if hashlib.sha256(sealed.body).digest() != sealed.body_digest:
        must_be_open(sealed.body, f"the body of event {sealed.seq}")
        msg = f"the body of event {sealed.seq} ({sealed.type}) is not the one that was sealed"
        raise StoreCorrupt(msg)
    try:
        return _reader(sealed.type)[1](sealed.body)
    except (msgspec.DecodeError, RecursionError):
        return _carefully(sealed, sealed.body)


def _carefully(sealed: SealedEvent, body: bytes) -> Event:
    """The fact that these bytes are, lone surrogates and all; or what is wrong with them."""
    try:
        return msgspec.convert(canonical.decode_stored(body), EVENTS[sealed.type])
    except (msgspec.ValidationError, InvalidPayload, RecursionError) as error:
        msg = f"event {sealed.seq} is not a {sealed.type} version {sealed.version} as this Holdfast knows it: {error}"
        raise SchemaMismatch(msg, hint=_OTHER_VERSION) from None


@functools.cache
def _reader(type_: str) -> tuple[int, Callable[[bytes], Event]]:
    """The newest version of this kind of fact that is known here, and what reads its bytes. Version 0: none is."""
    kind = EVENTS.get(type_)
    return (0, _unknown) if kind is None else (kind.version, msgspec.json.Decoder(kind).decode)


def _unknown(_body: bytes) -> Event:
    raise AssertionError("what has no version is not read")


def unseal_all(
    job_id: str, events: Iterable[SealedEvent], head: Head = EMPTY
) -> Iterator[tuple[SealedEvent, Event]]:
    """The facts one after the other, each checked as it comes: its link to the one before, its body, its type. One
    pass: what `first_break` and `unseal` find is found here too."""
    link, seq, job, sha256 = head.hash, head.seq, job_id.encode(), hashlib.sha256
    type_, version, fence = "", 0, 0
    middle, known, read = b"", False, _reader(type_)[1]
    for sealed in events:
        seq += 1
        if sealed.type != type_ or sealed.fence != fence or sealed.version != version:
            # Facts of one kind that one worker wrote have all of it in common.
            type_, version, fence = sealed.type, sealed.version, sealed.fence
            middle = f"/{type_}/{version}/{fence}/".encode()
            newest, read = _reader(type_)
            known = 1 <= version <= newest
        body, digest = sealed.body, sealed.body_digest
        link = sha256(b"%b%b%b/%d%b%d" % (link, digest, job, seq, middle, sealed.at)).digest()
        whole = body is None or sha256(body).digest() == digest
        if not whole:
            must_be_open(body, f"the body of event {seq}")
        if sealed.seq != seq or link != sealed.hash or not whole:
            msg = f"the chain of job {job_id} does not hold at event {seq}"
            raise StoreCorrupt(msg)
        if body is None or not known:
            unseal(sealed)  # which says why it cannot be read
            raise AssertionError("unseal reads what has a kind, a version and a body")
        try:
            event = read(body)
        except (msgspec.DecodeError, RecursionError):
            event = _carefully(sealed, body)
        yield sealed, event


def first_break(job_id: str, events: Iterable[SealedEvent], head: Head = EMPTY) -> int | None:
    """The seq at which the chain no longer holds, or None: gaps, changed bodies and forged links all show here."""
    for event in events:
        digest = event.body_digest if event.body is None else hashlib.sha256(event.body).digest()
        expected = chain(
            head.hash, digest, job_id, event.seq, event.type, event.version, event.fence, event.at
        )
        if event.seq != head.seq + 1 or digest != event.body_digest or expected != event.hash:
            return event.seq
        head = Head(event.seq, event.hash)
    return None
