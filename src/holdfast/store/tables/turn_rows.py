"""Rows of a turn: everything that can be computed before a lock is taken."""

from __future__ import annotations

import hashlib

import msgspec

from holdfast.model import canonical
from holdfast.model.limits import PAYLOAD_INLINE_BYTES
from holdfast.model.session import SessionNode, TurnCommit, Usage, check_commit
from holdfast.store.executor import Value
from holdfast.store.tables.checkpoints import pack_checkpoint


class TurnRows(msgspec.Struct, frozen=True):
    """`nodes` have no sequence number in the session yet; `blobs` are the bytes too large for a row, by digest."""

    commit: TurnCommit
    nodes: list[dict[str, Value]]
    usage: list[Usage]
    document: bytes
    states: bytes
    blobs: dict[bytes, bytes]

    @property
    def digest(self) -> bytes:
        return hashlib.sha256(self.document).digest()

    @property
    def is_plain(self) -> bool:
        """Whether one statement can commit it: it names its revision, has a stamp, and writes rows only."""
        commit = self.commit
        settles = commit.completes or commit.frames or commit.attachments or commit.replace or self.blobs
        return commit.stamp is not None and commit.expected_revision is not None and not settles

    def values(self, job_id: str | None) -> dict[str, Value]:
        """The values that do not depend on the session's head."""
        commit = self.commit
        last = commit.nodes[-1].node_id if commit.nodes else None
        return {
            "leaf_node_id": last if commit.leaf_node_id is None else commit.leaf_node_id,
            "frame_id": commit.frame_id,
            "checkpoint": self.document,
            "checkpoint_digest": self.digest,
            "states": self.states,
            "turn_id": None if commit.stamp is None else commit.stamp.turn_id,
            "turn_hash": None if commit.stamp is None else commit.stamp.turn_hash,
            "job_id": job_id,
            "replaced": int(commit.replace),
        }

    def columns(self) -> dict[str, Value]:
        """Nodes and usage, column by column."""
        nodes: dict[str, Value] = {f"node_{name}s": [node[name] for node in self.nodes] for name in _NODE}
        return nodes | {f"used_{name}": [getattr(used, name) for used in self.usage] for name in _USED}


_NODE = ("node_id", "parent_node_id", "frame_id", "caused_by", "at", "body", "body_digest")
_USED = Usage.__struct_fields__


def turn_of(commit: TurnCommit) -> TurnRows:
    """Check and encode the commit."""
    check_commit(commit)
    blobs: dict[bytes, bytes] = {}
    document, states = pack_checkpoint(commit.checkpoint, blobs)
    nodes = [_build_node_row(node, blobs) for node in commit.nodes]
    return TurnRows(commit, nodes, _merge_usage(commit.usage), document, states, blobs)


def _build_node_row(node: SessionNode, blobs: dict[bytes, bytes]) -> dict[str, Value]:
    body = canonical.encode(node.body)
    digest = hashlib.sha256(body).digest()
    if len(body) > PAYLOAD_INLINE_BYTES:
        blobs[digest] = body
    return {
        "node_id": node.node_id,
        "parent_node_id": node.parent_node_id,
        "frame_id": node.frame_id,
        "caused_by": node.caused_by,
        "at": node.at,
        "body": None if digest in blobs else body,
        "body_digest": digest,
    }


def _merge_usage(usage: tuple[Usage, ...]) -> list[Usage]:
    """One entry for each source and model, in the order of first use."""
    totals: dict[tuple[str, str], Usage] = {}
    for used in usage:
        before = totals.get((used.source, used.model))
        totals[used.source, used.model] = used if before is None else _add_usage(before, used)
    return list(totals.values())


def _add_usage(first: Usage, second: Usage) -> Usage:
    return msgspec.structs.replace(
        first,
        input_tokens=first.input_tokens + second.input_tokens,
        output_tokens=first.output_tokens + second.output_tokens,
        cached_input_tokens=first.cached_input_tokens + second.cached_input_tokens,
        reasoning_tokens=first.reasoning_tokens + second.reasoning_tokens,
    )
