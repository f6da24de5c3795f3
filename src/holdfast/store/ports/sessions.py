"""Sessions: turns, graphs, frames, checkpoints, usage."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import msgspec

from holdfast.model.jobs import DEFAULT_NAMESPACE
from holdfast.model.page import Page
from holdfast.model.session import (
    CollectionResult,
    CommitResult,
    SessionMeta,
    SessionNode,
    SessionRecord,
    SessionView,
    TurnCommit,
    VacuumResult,
)


class SessionScope(msgspec.Struct, frozen=True):
    """How much of a session to load: the whole graph; the ancestry of one leaf (None: the persisted one); or the head
    alone: leaf, frames and checkpoint, without nodes and usage, which takes the same time however long the session
    is."""

    active_path: bool = False
    leaf_node_id: str | None = None
    head_only: bool = False


FULL_GRAPH = SessionScope()
ACTIVE_PATH = SessionScope(active_path=True)
HEAD = SessionScope(head_only=True)


class Sessions(Protocol):
    """Every method takes the namespace last; ids of one namespace mean nothing in another.

    `handle` names a persisted binding: the first commit (or `save_meta`) through a handle binds it to its session for
    ever; another session through the same handle raises SessionBound. Without a handle nothing is bound.
    """

    async def commit(
        self, commit: TurnCommit, *, handle: str | None = None, namespace: str = DEFAULT_NAMESPACE
    ) -> CommitResult:
        """Commit the turn with everything it names, or nothing.

        The checks run in the order that `holdfast.model.session` gives. Committing a node again replaces it and clears
        its tombstone. With `replace` the graph is exactly `nodes`. The new leaf is `leaf_node_id`, or, when that is
        None, the last appended node, or the previous leaf. Frames are added or replaced by id; `frame_id` None keeps
        the current frame. An attachment's first stamp wins. Completed batches drop their items and leave the queue.

        Raises SessionBound, TurnConflict, HeadMoved, ClaimLost or InvalidPayload; nothing was written then.
        """
        ...

    async def load(
        self, session_id: str, scope: SessionScope = FULL_GRAPH, *, namespace: str = DEFAULT_NAMESPACE
    ) -> SessionView | None:
        """The session as of its head; None before the first commit. Tombstoned nodes are not in it.

        Nodes come in insertion order (full graph) or root first (active path). Usage is merged per (source, model), in
        the order of first use.
        """
        ...

    async def list(
        self,
        *,
        text: str | None = None,
        limit: int = 100,
        cursor: str | None = None,
        namespace: str = DEFAULT_NAMESPACE,
    ) -> Page[SessionRecord]:
        """Sessions that have a commit or a job, newest id first; with `text`, those whose id contains it (A to Z match
        in either case)."""
        ...

    async def find_bound_session(self, handle: str, *, namespace: str = DEFAULT_NAMESPACE) -> str | None:
        """The session that the handle is bound to, if it is bound."""
        ...

    async def node(
        self, session_id: str, node_id: str, *, namespace: str = DEFAULT_NAMESPACE
    ) -> SessionNode | None:
        """The node; None if it is tombstoned or unknown."""
        ...

    async def save_meta(
        self, meta: SessionMeta, *, handle: str | None = None, namespace: str = DEFAULT_NAMESPACE
    ) -> None: ...

    async def meta(self, session_id: str, *, namespace: str = DEFAULT_NAMESPACE) -> SessionMeta | None: ...

    async def tombstone(
        self, session_id: str, node_ids: Sequence[str], *, namespace: str = DEFAULT_NAMESPACE
    ) -> int:
        """Hide the nodes from every load; returns how many were visible before."""
        ...

    async def vacuum(self, session_id: str, *, namespace: str = DEFAULT_NAMESPACE) -> VacuumResult:
        """Remove tombstoned nodes; returns what this call removed."""
        ...

    async def gc(self, *, older_than_us: int = 0, namespace: str = DEFAULT_NAMESPACE) -> CollectionResult:
        """Remove blobs of this namespace that nothing refers to and that are older than the grace period."""
        ...
