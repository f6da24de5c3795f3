"""Content checks: bytes match their digests, checkpoints their hashes, and session graphs have no cycles."""

from __future__ import annotations

import hashlib
from collections import defaultdict

import msgspec

from holdfast.engine.verify.report import Violation
from holdfast.model.envelope import is_sealed
from holdfast.store.executor import Transaction
from holdfast.store.tables.checkpoints import blobs_of

PAGE = 200


class ContentCounts(msgspec.Struct):
    sessions: int = 0
    blobs: int = 0
    unread: int = 0


async def check_content(tx: Transaction, counted: ContentCounts) -> list[Violation]:
    return [
        *await _check_blobs(tx, counted),
        *await _check_checkpoints(tx, counted),
        *await _check_cycles(tx),
    ]


async def _check_blobs(tx: Transaction, counted: ContentCounts) -> list[Violation]:
    """I33: the content of a blob matches its digest."""
    violations: list[Violation] = []
    place: tuple[str, bytes] = ("", b"")
    while rows := await tx.rows("list_all_blobs", namespace=place[0], digest=place[1], limit=PAGE):
        counted.blobs += len(rows)
        counted.unread += sum(is_sealed(body) for _, _, body in rows)
        violations += [
            Violation("I33", digest.hex(), "the blob's content does not fit its name")
            for _, digest, body in rows
            if not is_sealed(body) and hashlib.sha256(body).digest() != digest
        ]
        place = (rows[-1][0], rows[-1][1])
    return violations


async def _check_checkpoints(tx: Transaction, counted: ContentCounts) -> list[Violation]:
    """I22: the head's checkpoint matches its hash, and its states exist."""
    violations: list[Violation] = []
    for namespace, session_id, document, digest, states in await tx.rows("list_all_checkpoints"):
        counted.sessions += 1
        if is_sealed(document) or is_sealed(states):
            counted.unread += 1
            continue
        if hashlib.sha256(document).digest() != digest:
            violations.append(Violation("I22", session_id, "the checkpoint does not fit its hash"))
            continue
        violations += [
            Violation("I33", session_id, f"the checkpoint's state {state.hex()} is missing")
            for state in sorted(blobs_of(document, states))
            if await tx.row("has_blob", namespace=namespace, digest=state) is None
        ]
    return violations


async def _check_cycles(tx: Transaction) -> list[Violation]:
    """I23: the path from any node to its root ends."""
    graphs: dict[tuple[str, str], dict[str, str | None]] = defaultdict(dict)
    for namespace, session_id, node_id, parent in await tx.rows("list_all_parents"):
        graphs[namespace, session_id][node_id] = parent
    violations = []
    for (_, session_id), parents in graphs.items():
        node = _find_cycle(parents)
        if node is not None:
            violations.append(Violation("I23", session_id, f"node {node} is its own ancestor"))
    return violations


def _find_cycle(parents: dict[str, str | None]) -> str | None:
    """A node that is its own ancestor. Every node is visited once, however many paths lead through it."""
    finished: set[str] = set()
    for start in parents:
        path: list[str] = []
        visited: set[str] = set()
        cursor: str | None = start
        while cursor is not None and cursor in parents and cursor not in finished:
            if cursor in visited:
                return cursor
            visited.add(cursor)
            path.append(cursor)
            cursor = parents[cursor]
        finished.update(path)
    return None
