"""Restore staging: prepares a copy of a backup before it replaces the store.

A restored store has no record of what was done after the backup. So a copy of the backup is *staged*:

    1. a new epoch: every fence from now on is larger than every fence granted before, so a worker that was running
       before the restore can no longer write
    2. no leases, no claims and no workers: their holders are from before the restore
    3. every unfinished job waits for a person (`restore_review`), with the restore in its journal: side effects that it
       performed after the backup are not recorded
    4. every schedule is paused: what it fired after the backup would be fired again as missed
    5. every API key is revoked: a key that was revoked after the backup would be valid again

Only the finished copy is put in place, in one transaction. If the process is killed before that, nothing has changed.
"""

from __future__ import annotations

from pathlib import Path

import msgspec

from holdfast.model import lease
from holdfast.model.audit import ActDraft, act_id, check_act
from holdfast.model.events import JobWaiting, StoreRestored
from holdfast.model.hash_chain import seal
from holdfast.model.ids import IdSource
from holdfast.model.states import WaitReason
from holdfast.store.clock import Clock
from holdfast.store.executor import Transaction
from holdfast.store.sqlite.open import open_sqlite
from holdfast.store.tables.audit import write_act_in
from holdfast.store.tables.job_heads import head_of


class RestoreResult(msgspec.Struct, frozen=True):
    """The result of a restore: the new epoch, how many jobs now wait for review, how many schedules were paused and how
    many API keys revoked."""

    epoch: int
    held: int
    jobs: int
    paused: int = 0
    revoked: int = 0


async def stage(copy: Path, *, live_epoch: int, label: str, clock: Clock, ids: IdSource) -> RestoreResult:
    """Turn the copy into a store of a new epoch, without leases, claims and workers."""
    store = await open_sqlite(copy, clock=clock, ids=ids)
    try:

        async def work(tx: Transaction) -> RestoreResult:
            return await _stage_in(tx, live_epoch, label)

        return await store.executor.write(work)
    finally:
        await store.close()


async def _stage_in(tx: Transaction, live_epoch: int, label: str) -> RestoreResult:
    state = await tx.row("get_store_state")
    wall = await tx.row("read_wall_clock")
    assert state is not None
    assert wall is not None
    epoch = max(state[1], live_epoch) + 1
    await tx.run("set_epoch", epoch=epoch)
    await tx.run("release_all_batches")
    await tx.run("remove_all_workers")
    await tx.run("remove_all_worker_leases")
    held = 0
    for row in await tx.rows("list_unfinished_heads"):
        head = head_of(row)
        fence = lease.floor(epoch) + 1
        facts = [StoreRestored(epoch=epoch, backup=label), JobWaiting(reason=WaitReason.RESTORE_REVIEW)]
        events, new = seal(head.job_id, head.head, fence, wall[0], facts)
        await tx.run("hold_for_review", job_id=head.job_id, head_seq=new.seq, head_hash=new.hash, fence=fence)
        for event in events:
            await tx.run(
                "insert_event",
                job_id=head.job_id,
                seq=event.seq,
                type=event.type,
                version=event.version,
                fence=event.fence,
                at=event.at,
                body=event.body,
                body_digest=event.body_digest,
                hash=event.hash,
            )
        held += 1
    count = await tx.row("count_heads")
    assert count is not None
    paused = await tx.rows("pause_all_schedules")
    return RestoreResult(epoch, held, count[0], len(paused), await _revoke_keys(tx, epoch, label))


async def _revoke_keys(tx: Transaction, epoch: int, label: str) -> int:
    keys = await tx.rows("list_valid_api_keys")
    for key_id, namespace in keys:
        await tx.row("revoke_api_key", key_id=key_id)
        act = ActDraft(
            act_id=act_id("key.revoke", key_id, str(epoch)),
            what="key.revoke",
            who="restore",
            object=key_id,
            reason=f"the store was restored from {label}",
            namespace=namespace,
        )
        await write_act_in(tx, check_act(act))
    return len(keys)
