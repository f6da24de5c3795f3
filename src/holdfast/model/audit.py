"""The audit log: privileged actions, in order, in a hash chain, so that no entry can be changed, removed or inserted.

    hash(n) = SHA-256( hash(n-1) ‖ SHA-256(body) ‖ ["namespace", n, "what", "act id", at] )

Every namespace has its own chain, so that a reader of one namespace can also verify it. An action has an id: if it is
written twice, because a reply was lost, the log has one entry.
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
"""Characters of one text of an action. A reason is a sentence or two; the journal has the full text."""


class ActDraft(msgspec.Struct, frozen=True, kw_only=True):
    """A privileged action that was performed or rejected."""

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
    """An entry as it is stored."""

    seq: int
    act_id: str
    at: int
    what: str
    body: bytes
    hash: bytes


def act_id(*parts: str) -> str:
    """The id of an action: the same for every retry."""
    return canonical.digest_of(list(parts)).hex()[:32]


def check_act(act: ActDraft) -> ActDraft:
    """The action with its texts cut to the length of an entry."""
    check_name(act.act_id, "act id")
    check_name(act.what, "what")
    check_name(act.namespace, "namespace")
    texts = {name: _cut(getattr(act, name)) for name in _TEXTS}
    return msgspec.structs.replace(act, **texts)


_TEXTS: Final = ("who", "object", "reason", "request_id", "detail")


def _cut(text: str) -> str:
    return text if len(text) <= TEXT_MAX else text[: TEXT_MAX - 1] + "…"


def seal_act(act: ActDraft, head: Head, at: int) -> SealedAct:
    """Seal the action as the entry after this head."""
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
    """Decode an entry for display."""
    return Act(
        seq=sealed.seq,
        at=sealed.at,
        what=sealed.what,
        act_id=sealed.act_id,
        hash=sealed.hash.hex(),
        **canonical.decode_stored(sealed.body),
    )


def find_breaks(namespace: str, after: Head, acts: Iterable[SealedAct]) -> Iterator[str]:
    """Verify entries that follow this head: the first fault of each broken entry."""
    head = after
    for act in acts:
        if act.seq != head.seq + 1:
            yield f"line {head.seq + 1} is missing"
        elif act.hash != _hash(head.hash, namespace, act.seq, act.act_id, act.at, act.what, act.body):
            yield f"line {act.seq} is not what was written"
        head = Head(act.seq, act.hash)


def _hash(previous: bytes, namespace: str, seq: int, act: str, at: int, action: str, body: bytes) -> bytes:
    place = canonical.encode([namespace, seq, action, act, at])
    return hashlib.sha256(previous + hashlib.sha256(body).digest() + place).digest()
