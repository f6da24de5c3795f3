"""Hash chain: numbers and links the events of a journal, so that none can be changed, removed or inserted.

    hash(n) = SHA-256( hash(n-1) ‖ SHA-256(body) ‖ "job/seq/type/version/fence/at" )

The chain covers the *digest* of a body, not the body, so that a payload can be erased and the chain still verifies. The
head (seq and hash of the last event) therefore identifies the whole history: two journals with the same head are equal,
which is how a writer recognises its own append after a lost reply.
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
    """Number and hash of the last event: identifies a whole history in forty bytes."""

    seq: int
    hash: bytes


EMPTY: Final = Head(0, GENESIS)


class SealedEvent(msgspec.Struct, frozen=True, gc=False):
    """An event as it is stored: numbered, timed, fenced, hashed. `body` is None after it was erased."""

    seq: int
    type: str
    version: int
    fence: int
    at: int
    body: bytes | None
    body_digest: bytes
    hash: bytes


def body_of(event: Event) -> bytes:
    """The canonical body. Fields with their default value are left out, so that adding a field changes no old hash."""
    fields = zip(_fields(type(event)), msgspec.structs.astuple(event), strict=True)
    return canonical.encode(
        {name: value for (name, default), value in fields if value is not default and value != default}
    )


def body_of_step(step: StepFinished, result: bytes) -> bytes:
    """The canonical body of a step whose result is already encoded: `result` are its canonical bytes, without secrets.
    The common case concatenates the bytes; all others use `body_of`."""
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
    """Whether the key needs no escaping in JSON and holds no secret."""
    rules = redaction.current
    name, _, number = key.rpartition("#")
    if name in rules.plain_names and number.isdecimal() and number.isascii():
        return True
    is_plain = key.isascii() and key.isprintable() and '"' not in key and "\\" not in key
    if not is_plain or rules.suspects(key.encode()):
        return False
    if rules.looks_for_shapes_only and len(rules.plain_names) < _PLAIN_NAMES_MAX:
        # A number after "#" matches no shape of a secret: the next call of this name needs no check.
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
    """Number and hash the events after `head`; returns them and the new head. `at` is the time of all of them, or of
    each; `bodies` holds those that are already encoded."""
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
        # `chain`, inlined: this runs for every event.
        place = f"{job_id}/{seq}/{type_}/{version}/{fence}/{event_at}"
        link = sha256(link + digest + place.encode()).digest()
        sealed.append(SealedEvent(seq, type_, version, fence, event_at, body, digest, link))
    return tuple(sealed), Head(seq, link)


def unseal(sealed: SealedEvent) -> Event:
    """Decode the event. Rejects a type or version that this version of Holdfast does not know, and a body that does not
    match its digest.

    Bytes that match their digest are the ones `body_of` wrote, so they are decoded without a second check.
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
        return _find_decoder(sealed.type)[1](sealed.body)
    except (msgspec.DecodeError, RecursionError):
        return _decode_slowly(sealed, sealed.body)


def _decode_slowly(sealed: SealedEvent, body: bytes) -> Event:
    """Decode with the slow path, lone surrogates included; or raise the error that explains the fault."""
    try:
        return msgspec.convert(canonical.decode_stored(body), EVENTS[sealed.type])
    except (msgspec.ValidationError, InvalidPayload, RecursionError) as error:
        msg = f"event {sealed.seq} is not a {sealed.type} version {sealed.version} as this Holdfast knows it: {error}"
        raise SchemaMismatch(msg, hint=_OTHER_VERSION) from None


@functools.cache
def _find_decoder(type_: str) -> tuple[int, Callable[[bytes], Event]]:
    """The newest version of this event type that is known here, and its decoder. Version 0: the type is unknown."""
    kind = EVENTS.get(type_)
    return (0, _reject_unknown) if kind is None else (kind.version, msgspec.json.Decoder(kind).decode)


def _reject_unknown(_body: bytes) -> Event:
    raise AssertionError("what has no version is not read")


def unseal_all(
    job_id: str, events: Iterable[SealedEvent], head: Head = EMPTY
) -> Iterator[tuple[SealedEvent, Event]]:
    """Decode the events one by one and check each: its link to the one before, its body, its type. One pass that finds
    the same faults as `find_break` and `unseal`."""
    link, seq, job, sha256 = head.hash, head.seq, job_id.encode(), hashlib.sha256
    type_, version, fence = "", 0, 0
    middle, known, read = b"", False, _find_decoder(type_)[1]
    for sealed in events:
        seq += 1
        if sealed.type != type_ or sealed.fence != fence or sealed.version != version:
            # Events of one type that one worker wrote share this suffix.
            type_, version, fence = sealed.type, sealed.version, sealed.fence
            middle = f"/{type_}/{version}/{fence}/".encode()
            newest, read = _find_decoder(type_)
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
            unseal(sealed)  # raises the error that explains the fault
            raise AssertionError("unseal reads what has a kind, a version and a body")
        try:
            event = read(body)
        except (msgspec.DecodeError, RecursionError):
            event = _decode_slowly(sealed, body)
        yield sealed, event


def find_break(job_id: str, events: Iterable[SealedEvent], head: Head = EMPTY) -> int | None:
    """The seq at which the chain breaks, or None: gaps, changed bodies and forged links all show here."""
    for event in events:
        digest = event.body_digest if event.body is None else hashlib.sha256(event.body).digest()
        expected = chain(
            head.hash, digest, job_id, event.seq, event.type, event.version, event.fence, event.at
        )
        if event.seq != head.seq + 1 or digest != event.body_digest or expected != event.hash:
            return event.seq
        head = Head(event.seq, event.hash)
    return None
