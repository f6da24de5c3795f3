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
from holdfast.model.inbox import Completion
from holdfast.model.session import Committed, Frame, Node, TurnCommit, check_commit
from holdfast.store.executor import Row, Transaction
from holdfast.store.tables.bodies import need_namespace, store_body
from holdfast.store.tables.checkpoints import store_checkpoint


async def commit_in(
    tx: Transaction, commit: TurnCommit, *, namespace: str, handle: str | None, job_id: str | None = None
) -> Committed:
    """The session is one turn further within this transaction, or the first check that failed is raised."""
    check_commit(commit)
    await need_namespace(tx, namespace)
    place = {"namespace": namespace, "session_id": commit.session_id}
    await tx.run("ensure_session", **place)
    head = await tx.row("session_head", **place)
    assert head is not None, "the session's row was made above"
    await must_serve(tx, namespace, handle, commit.session_id)
    earlier = await _stamped_before(tx, commit, place)
    if earlier is not None:
        return earlier
    if commit.expected_revision is not None and commit.expected_revision != head[0]:
        msg = f"session {commit.session_id} is at revision {head[0]}, the turn was built on {commit.expected_revision}"
        raise HeadMoved(msg, expected=commit.expected_revision, actual=head[0])
    for completion in commit.completes:
        await _must_own(tx, completion, place)
    await bind(tx, namespace, handle, commit.session_id)
    return await _write(tx, commit, head, place, job_id)


async def must_serve(tx: Transaction, namespace: str, handle: str | None, session_id: str) -> None:
    """The handle is not bound to another session."""
    bound = None if handle is None else await tx.row("bound_session", namespace=namespace, handle=handle)
    if bound is not None and bound[0] != session_id:
        msg = f"this handle serves session {bound[0]!r}, not {session_id!r}"
        raise SessionBound(msg)


async def bind(tx: Transaction, namespace: str, handle: str | None, session_id: str) -> None:
    """The handle, if there is one, serves this session. Checked again: two first commits may have met."""
    if handle is not None:
        await tx.run("bind_handle", namespace=namespace, handle=handle, session_id=session_id)
        await must_serve(tx, namespace, handle, session_id)


async def _stamped_before(tx: Transaction, commit: TurnCommit, place: dict[str, str]) -> Committed | None:
    if commit.stamp is None:
        return None
    row = await tx.row("turn_stamp", turn_id=commit.stamp.turn_id, **place)
    if row is None:
        return None
    turn_hash, revision, checkpoint_digest = row
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
    for node in commit.nodes:
        node_seq += 1
        await _put_node(tx, node, node_seq, place)
    await _put_frames(tx, commit.frames, place)
    for position, usage in enumerate(commit.usage):
        await tx.run(
            "add_usage", revision=revision, position=position, **msgspec.structs.asdict(usage), **place
        )
    last = commit.nodes[-1].node_id if commit.nodes else leaf
    await tx.run(
        "advance_session",
        revision=revision,
        leaf_node_id=last if commit.leaf_node_id is None else commit.leaf_node_id,
        frame_id=frame_id if commit.frame_id is None else commit.frame_id,
        node_seq=node_seq,
        checkpoint=document,
        checkpoint_digest=digest,
        states=states,
        **place,
    )
    await _settle(tx, commit, place)
    if commit.stamp is not None:
        await tx.run(
            "insert_turn",
            turn_id=commit.stamp.turn_id,
            turn_hash=commit.stamp.turn_hash,
            revision=revision,
            checkpoint_digest=digest,
            job_id=job_id,
            **place,
        )
    return Committed(revision, digest.hex())


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


async def _put_node(tx: Transaction, node: Node, node_seq: int, place: dict[str, str]) -> None:
    body = await store_body(tx, place["namespace"], canonical.encode(node.body))
    await tx.run(
        "put_node",
        node_id=node.node_id,
        node_seq=node_seq,
        parent_node_id=node.parent_node_id,
        frame_id=node.frame_id,
        caused_by=node.caused_by,
        at=node.at,
        body=body.inline,
        body_digest=body.digest,
        **place,
    )


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
