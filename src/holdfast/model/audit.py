"""The audit log: privileged acts, in order, chained so that none can be changed, lost or put in between.

    hash(n) = SHA-256( hash(n-1) ‖ SHA-256(body) ‖ ["namespace", n, "what", "act id", at] )

Every namespace has its own chain, so that who may read it can also check it. An act has an id: written twice, because a
reply was lost, it is one line.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from typing import Final

import msgspec

from holdfast.model import canonical
from holdfast.model.hash_chain import Head
from holdfast.model.ids import check_name
from holdfast.model.jobs import DEFAULT_NAMESPACE

TEXT_MAX: Final = 2_000
"""Characters of one text of an act. A reason is a sentence or two; the journal has all of it."""


class ActDraft(msgspec.Struct, frozen=True, kw_only=True):
    """Something that somebody did, or was refused."""

    act_id: str
    what: str
    who: str
    object: str = ""
    reason: str = ""
    request_id: str = ""
    detail: str = ""
    namespace: str = DEFAULT_NAMESPACE


class Act(msgspec.Struct, frozen=True, kw_only=True):
    """One entry of the audit log. `hash` is hex."""

    seq: int
    at: int
    what: str
    who: str
    object: str
    reason: str
    request_id: str
    detail: str
    act_id: str
    hash: str


class SealedAct(msgspec.Struct, frozen=True):
    """A line as it is stored."""

    seq: int
    act_id: str
    at: int
    what: str
    body: bytes
    hash: bytes


def act_id(*parts: str) -> str:
    """One id for all tries of the same act."""
    return canonical.digest_of(list(parts)).hex()[:32]


def check_act(act: ActDraft) -> ActDraft:
    """The act with its texts cut to what a line holds."""
    check_name(act.act_id, "act id")
    check_name(act.what, "what")
    check_name(act.namespace, "namespace")
    texts = {name: _cut(getattr(act, name)) for name in _TEXTS}
    return msgspec.structs.replace(act, **texts)


_TEXTS: Final = ("who", "object", "reason", "request_id", "detail")


def _cut(text: str) -> str:
    return text if len(text) <= TEXT_MAX else text[: TEXT_MAX - 1] + "…"


def seal_act(act: ActDraft, head: Head, at: int) -> SealedAct:
    """The act in its place behind this head."""
    body = canonical.encode({name: getattr(act, name) for name in _TEXTS})
    seq = head.seq + 1
    return SealedAct(
        seq,
        act.act_id,
        at,
        act.what,
        body,
        _hash(head.hash, act.namespace, seq, act.act_id, at, act.what, body),
    )


def read_act(sealed: SealedAct) -> Act:
    """The line as people see it."""
    return Act(
        seq=sealed.seq,
        at=sealed.at,
        what=sealed.what,
        act_id=sealed.act_id,
        hash=sealed.hash.hex(),
        **canonical.decode_stored(sealed.body),
    )


def breaks(namespace: str, after: Head, acts: Iterable[SealedAct]) -> Iterator[str]:
    """What is wrong with these lines, which follow this head: the first fault of each."""
    head = after
    for act in acts:
        if act.seq != head.seq + 1:
            yield f"line {head.seq + 1} is missing"
        elif act.hash != _hash(head.hash, namespace, act.seq, act.act_id, act.at, act.what, act.body):
            yield f"line {act.seq} is not what was written"
        head = Head(act.seq, act.hash)


def _hash(previous: bytes, namespace: str, seq: int, act: str, at: int, what: str, body: bytes) -> bytes:
    place = canonical.encode([namespace, seq, what, act, at])
    return hashlib.sha256(previous + hashlib.sha256(body).digest() + place).digest()
