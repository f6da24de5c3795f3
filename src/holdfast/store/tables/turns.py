"""Turn commit: the checks in their order, then all writes.

    binding → stamp → head revision → claims → write

Every check locks the rows that it checks (the session's row, the batches), so nothing can change between the check and
the write. The stamp is checked before head and claims: a retry whose first try was committed must succeed, although
that commit moved the head and completed the claimed batches.
"""

from __future__ import annotations

import msgspec

from holdfast.errors import ClaimLost, HeadMoved, SessionBound, TurnConflict
from holdfast.model import canonical
from holdfast.model.ids import check_name
from holdfast.model.inbox import Completion
from holdfast.model.session import CommitResult, Frame, TurnCommit
from holdfast.store.executor import Executor, Row, RunAgain, Transaction, Value
from holdfast.store.tables.payloads import need_namespace, store_body
from holdfast.store.tables.turn_rows import TurnRows, turn_of


async def commit_in(
    tx: Transaction, commit: TurnCommit, *, namespace: str, handle: str | None, job_id: str | None = None
) -> CommitResult:
    """Commit the turn within this transaction, or raise the error of the first check that fails."""
    return await write_in(tx, turn_of(commit), namespace=namespace, handle=handle, job_id=job_id)


async def write_in(
    tx: Transaction, turn: TurnRows, *, namespace: str, handle: str | None, job_id: str | None = None
) -> CommitResult:
    """As `commit_in`, for a turn that is already encoded as rows."""
    commit = turn.commit
    place = {"namespace": namespace, "session_id": commit.session_id}
    head, stamp = await _open_turn(tx, commit, place)
    await check_binding(tx, namespace, handle, commit.session_id)
    earlier = _find_replay(commit, stamp)
    if earlier is not None:
        return earlier
    try:
        await _must_fit(tx, commit, head, place)
    except (HeadMoved, ClaimLost):
        # After a wait for a row lock, Postgres returns the new version of that row, but rows joined to it as they were
        # before the wait. So if another process has just committed this same turn, the first read shows the moved head
        # without the stamp.
        _, stamp = await _open_turn(tx, commit, place)
        earlier = _find_replay(commit, stamp)
        if earlier is None:
            raise
        return earlier
    await bind(tx, namespace, handle, commit.session_id)
    return await _write(tx, turn, head, place, job_id)


async def commit_at_once(executor: Executor, turn: TurnRows, *, namespace: str) -> CommitResult | None:
    """Commit the turn by one statement that is a transaction by itself. None: nothing was written, and the checks of
    `write_in` find the reason."""
    commit = turn.commit
    place = {"namespace": namespace, "session_id": commit.session_id}
    values = turn.values(None) | place | turn.columns()
    rows = await executor.run_statement("write_turn", expected_revision=commit.expected_revision, **values)
    return CommitResult(rows[0][0], turn.digest.hex()) if rows else None


async def _must_fit(tx: Transaction, commit: TurnCommit, head: Row, place: dict[str, str]) -> None:
    """Raise unless the turn was built on the session's head and still holds its claims."""
    if commit.expected_revision is not None and commit.expected_revision != head[0]:
        msg = f"session {commit.session_id} is at revision {head[0]}, the turn was built on {commit.expected_revision}"
        raise HeadMoved(msg, expected=commit.expected_revision, actual=head[0])
    for completion in commit.completes:
        await _must_own(tx, completion, place)


async def check_binding(tx: Transaction, namespace: str, handle: str | None, session_id: str) -> None:
    """Raise SessionBound if the handle is bound to another session."""
    if handle is not None:
        check_name(handle, "handle")
    bound = (
        None if handle is None else await tx.row("find_session_by_handle", namespace=namespace, handle=handle)
    )
    if bound is not None and bound[0] != session_id:
        msg = f"this handle serves session {bound[0]!r}, not {session_id!r}"
        raise SessionBound(msg)


async def bind(tx: Transaction, namespace: str, handle: str | None, session_id: str) -> None:
    """Bind the handle, if there is one, to this session. Checked again afterwards: two first commits may be
    concurrent."""
    if handle is not None:
        await tx.run("bind_handle", namespace=namespace, handle=handle, session_id=session_id)
        await check_binding(tx, namespace, handle, session_id)


async def _open_turn(tx: Transaction, commit: TurnCommit, place: dict[str, str]) -> tuple[Row, Row]:
    """Lock the session's row, which is created for a first turn; returns the head and the stamp."""
    turn_id = None if commit.stamp is None else commit.stamp.turn_id
    row = await tx.row("lock_session_for_turn", turn_id=turn_id, **place)
    if row is None:
        await need_namespace(tx, place["namespace"])
        await tx.run("ensure_session", **place)
        row = await tx.row("lock_session_for_turn", turn_id=turn_id, **place)
        assert row is not None, "the session's row was made above"
    return row[:4], row[4:]


def _find_replay(commit: TurnCommit, stamp: Row) -> CommitResult | None:
    turn_hash, revision, checkpoint_digest = stamp
    if commit.stamp is None or turn_hash is None:
        return None
    if turn_hash != commit.stamp.turn_hash:
        msg = f"turn {commit.stamp.turn_id!r} of session {commit.session_id} was committed with other content"
        raise TurnConflict(msg)
    return CommitResult(revision, checkpoint_digest.hex(), replayed=True)


async def _must_own(tx: Transaction, completion: Completion, place: dict[str, str]) -> None:
    for batch_id in completion.batch_ids:
        owned = await tx.row(
            "lock_claimed_batch",
            batch_id=batch_id,
            claim_id=completion.claim_id,
            token=completion.token,
            **place,
        )
        if owned is None:
            msg = f"claim {completion.claim_id} no longer holds batch {batch_id}"
            raise ClaimLost(msg)


async def _write(
    tx: Transaction, turn: TurnRows, head: Row, place: dict[str, str], job_id: str | None
) -> CommitResult:
    revision, leaf, frame_id, node_seq = head
    commit = turn.commit
    for digest, body in turn.blobs.items():
        await tx.run("put_blob", namespace=place["namespace"], digest=digest, body=body)
    if commit.replace:
        await tx.run("remove_all_nodes", **place)
        leaf = None
    values = turn.values(job_id) | place
    if tx.batches:
        if await tx.row("write_turn", expected_revision=revision, **values, **turn.columns()) is None:
            raise RunAgain
    else:
        values["leaf_node_id"] = leaf if values["leaf_node_id"] is None else values["leaf_node_id"]
        values["frame_id"] = frame_id if commit.frame_id is None else commit.frame_id
        await _write_each(tx, turn, values | {"revision": revision + 1}, node_seq)
    await _put_frames(tx, commit.frames, place)
    await _settle(tx, commit, place)
    return CommitResult(revision + 1, turn.digest.hex())


async def _write_each(tx: Transaction, turn: TurnRows, values: dict[str, Value], node_seq: int) -> None:
    """Write the turn's rows, statement by statement."""
    place = {"namespace": values["namespace"], "session_id": values["session_id"]}
    nodes = [node | place | {"node_seq": node_seq + nth} for nth, node in enumerate(turn.nodes, 1)]
    await tx.rows_each("put_node", nodes)
    for position, used in enumerate(turn.usage):
        await tx.run(
            "add_usage",
            revision=values["revision"],
            position=position,
            **msgspec.structs.asdict(used),
            **place,
        )
    await tx.run("advance_session", node_seq=node_seq + len(nodes), **values)
    if values["turn_id"] is not None and await tx.row("insert_turn", **values) is None:
        raise RunAgain


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
            await tx.run("remove_items", batch_id=batch_id, **place)
    for attachment_id in commit.attachments:
        await tx.run("commit_attachment", attachment_id=attachment_id, namespace=place["namespace"])


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
