"""The turn commit: the checks in their order, then everything at once.

    binding → stamp → head revision → claims → write

Every check locks what it judges (the session's row, the batches), so nothing can change between the check and the
write. The stamp is looked at before head and claims: a retry whose first try was committed must succeed although that
very commit moved the head and used up the claim.
"""

from __future__ import annotations

import hashlib

import msgspec

from holdfast.errors import ClaimLost, HeadMoved, SessionBound, TurnConflict
from holdfast.model import canonical
from holdfast.model.ids import check_name
from holdfast.model.inbox import Completion
from holdfast.model.session import Committed, Frame, Node, TurnCommit, Usage, check_commit
from holdfast.store.executor import Row, RunAgain, Transaction, Value
from holdfast.store.tables.bodies import need_namespace, store_body
from holdfast.store.tables.checkpoints import store_checkpoint


async def commit_in(
    tx: Transaction, commit: TurnCommit, *, namespace: str, handle: str | None, job_id: str | None = None
) -> Committed:
    """The session is one turn further within this transaction, or the first check that failed is raised."""
    check_commit(commit)
    place = {"namespace": namespace, "session_id": commit.session_id}
    head, stamp = await _open_turn(tx, commit, place)
    await must_serve(tx, namespace, handle, commit.session_id)
    earlier = _stamped_before(commit, stamp)
    if earlier is not None:
        return earlier
    try:
        await _must_fit(tx, commit, head, place)
    except (HeadMoved, ClaimLost):
        # Postgres shows a row that was waited for as it is now, and what is joined to it as it was before the wait. So
        # the same turn, committed beside us just now, has moved the head and not shown its stamp.
        _, stamp = await _open_turn(tx, commit, place)
        earlier = _stamped_before(commit, stamp)
        if earlier is None:
            raise
        return earlier
    await bind(tx, namespace, handle, commit.session_id)
    return await _write(tx, commit, head, place, job_id)


async def _must_fit(tx: Transaction, commit: TurnCommit, head: Row, place: dict[str, str]) -> None:
    """The turn was built on the session's head, and its inputs are still its own."""
    if commit.expected_revision is not None and commit.expected_revision != head[0]:
        msg = f"session {commit.session_id} is at revision {head[0]}, the turn was built on {commit.expected_revision}"
        raise HeadMoved(msg, expected=commit.expected_revision, actual=head[0])
    for completion in commit.completes:
        await _must_own(tx, completion, place)


async def must_serve(tx: Transaction, namespace: str, handle: str | None, session_id: str) -> None:
    """The handle is not bound to another session."""
    if handle is not None:
        check_name(handle, "handle")
    bound = None if handle is None else await tx.row("bound_session", namespace=namespace, handle=handle)
    if bound is not None and bound[0] != session_id:
        msg = f"this handle serves session {bound[0]!r}, not {session_id!r}"
        raise SessionBound(msg)


async def bind(tx: Transaction, namespace: str, handle: str | None, session_id: str) -> None:
    """The handle, if there is one, serves this session. Checked again: two first commits may have met."""
    if handle is not None:
        await tx.run("bind_handle", namespace=namespace, handle=handle, session_id=session_id)
        await must_serve(tx, namespace, handle, session_id)


async def _open_turn(tx: Transaction, commit: TurnCommit, place: dict[str, str]) -> tuple[Row, Row]:
    """The head and the stamp, with the session's row locked; the row is made if this is its first turn."""
    turn_id = None if commit.stamp is None else commit.stamp.turn_id
    row = await tx.row("open_turn", turn_id=turn_id, **place)
    if row is None:
        await need_namespace(tx, place["namespace"])
        await tx.run("ensure_session", **place)
        row = await tx.row("open_turn", turn_id=turn_id, **place)
        assert row is not None, "the session's row was made above"
    return row[:4], row[4:]


def _stamped_before(commit: TurnCommit, stamp: Row) -> Committed | None:
    turn_hash, revision, checkpoint_digest = stamp
    if commit.stamp is None or turn_hash is None:
        return None
    if turn_hash != commit.stamp.turn_hash:
        msg = f"turn {commit.stamp.turn_id!r} of session {commit.session_id} was committed with other content"
        raise TurnConflict(msg)
    return Committed(revision, checkpoint_digest.hex(), replayed=True)


async def _must_own(tx: Transaction, completion: Completion, place: dict[str, str]) -> None:
    for batch_id in completion.batch_ids:
        owned = await tx.row(
            "owned_batch", batch_id=batch_id, claim_id=completion.claim_id, token=completion.token, **place
        )
        if owned is None:
            msg = f"claim {completion.claim_id} no longer holds batch {batch_id}"
            raise ClaimLost(msg)


async def _write(
    tx: Transaction, commit: TurnCommit, head: Row, place: dict[str, str], job_id: str | None
) -> Committed:
    revision, leaf, frame_id, node_seq = head
    revision += 1
    document, states = await store_checkpoint(tx, place["namespace"], commit.checkpoint)
    digest = hashlib.sha256(document).digest()
    if commit.replace:
        await tx.run("clear_nodes", **place)
        leaf = None
    nodes = [await _node_values(tx, node, node_seq + nth, place) for nth, node in enumerate(commit.nodes, 1)]
    last = commit.nodes[-1].node_id if commit.nodes else leaf
    advance: dict[str, Value] = {
        "revision": revision,
        "leaf_node_id": last if commit.leaf_node_id is None else commit.leaf_node_id,
        "frame_id": frame_id if commit.frame_id is None else commit.frame_id,
        "node_seq": node_seq + len(nodes),
        "checkpoint": document,
        "checkpoint_digest": digest,
        "states": states,
        "turn_id": None if commit.stamp is None else commit.stamp.turn_id,
        "turn_hash": None if commit.stamp is None else commit.stamp.turn_hash,
        "job_id": job_id,
        **place,
    }
    await (_write_at_once if tx.batches else _write_each)(tx, advance, nodes, _merged(commit.usage))
    await _put_frames(tx, commit.frames, place)
    await _settle(tx, commit, place)
    return Committed(revision, digest.hex())


async def _write_each(
    tx: Transaction, advance: dict[str, Value], nodes: list[dict[str, Value]], usage: list[Usage]
) -> None:
    """The turn's rows, statement by statement."""
    place = {"namespace": advance["namespace"], "session_id": advance["session_id"]}
    await tx.rows_each("put_node", [node | place for node in nodes])
    for position, used in enumerate(usage):
        values = msgspec.structs.asdict(used)
        await tx.run("add_usage", revision=advance["revision"], position=position, **values, **place)
    await tx.run("advance_session", **advance)
    if advance["turn_id"] is not None and await tx.row("insert_turn", **advance) is None:
        raise RunAgain


async def _write_at_once(
    tx: Transaction, advance: dict[str, Value], nodes: list[dict[str, Value]], usage: list[Usage]
) -> None:
    """The turn's rows in one statement and one round trip."""
    columns: dict[str, Value] = {f"node_{name}s": [node[name] for node in nodes] for name in _NODE}
    columns |= {f"used_{name}": [getattr(used, name) for used in usage] for name in Usage.__struct_fields__}
    row = await tx.row("write_turn", **advance, **columns)
    if row is None or (advance["turn_id"] is not None and row[0] == 0):
        raise RunAgain


_NODE = ("node_id", "node_seq", "parent_node_id", "frame_id", "caused_by", "at", "body", "body_digest")


def _merged(usage: tuple[Usage, ...]) -> list[Usage]:
    """One entry per source and model, in the order of first use."""
    totals: dict[tuple[str, str], Usage] = {}
    for used in usage:
        before = totals.get((used.source, used.model))
        totals[used.source, used.model] = used if before is None else _sum(before, used)
    return list(totals.values())


def _sum(one: Usage, other: Usage) -> Usage:
    return msgspec.structs.replace(
        one,
        input_tokens=one.input_tokens + other.input_tokens,
        output_tokens=one.output_tokens + other.output_tokens,
        cached_input_tokens=one.cached_input_tokens + other.cached_input_tokens,
        reasoning_tokens=one.reasoning_tokens + other.reasoning_tokens,
    )


async def _settle(tx: Transaction, commit: TurnCommit, place: dict[str, str]) -> None:
    turn_id = "" if commit.stamp is None else commit.stamp.turn_id
    for completion in commit.completes:
        for batch_id in completion.batch_ids:
            await tx.row(
                "complete_batch",
                batch_id=batch_id,
                claim_id=completion.claim_id,
                token=completion.token,
                turn_id=turn_id,
                **place,
            )
            await tx.run("drop_items", batch_id=batch_id, **place)
    for attachment_id in commit.attachments:
        await tx.run("stamp_attachment", attachment_id=attachment_id, namespace=place["namespace"])


async def _node_values(tx: Transaction, node: Node, node_seq: int, place: dict[str, str]) -> dict[str, Value]:
    """The node as a row; a large body is a blob now."""
    body = await store_body(tx, place["namespace"], canonical.encode(node.body))
    return {
        "node_id": node.node_id,
        "node_seq": node_seq,
        "parent_node_id": node.parent_node_id,
        "frame_id": node.frame_id,
        "caused_by": node.caused_by,
        "at": node.at,
        "body": body.inline,
        "body_digest": body.digest,
    }


async def _put_frames(tx: Transaction, frames: tuple[Frame, ...], place: dict[str, str]) -> None:
    if not frames:
        return
    count = await tx.row("count_frames", **place)
    assert count is not None
    for offset, frame in enumerate(frames):
        snapshot = (
            None if frame.snapshot is None else await store_body(tx, place["namespace"], frame.snapshot)
        )
        await tx.run(
            "put_frame",
            frame_id=frame.frame_id,
            frame_seq=count[0] + offset,
            previous_frame_id=frame.previous_frame_id,
            status=frame.status,
            reason=frame.reason,
            caused_by=frame.caused_by,
            created_at=frame.created_at,
            assignment=canonical.encode([frame.assignment, frame.options]),
            snapshot=None if snapshot is None else snapshot.inline,
            snapshot_digest=None if snapshot is None else snapshot.digest,
            **place,
        )
