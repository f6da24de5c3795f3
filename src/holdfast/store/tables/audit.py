"""Audit log over SQL."""

from __future__ import annotations

from collections.abc import Sequence

from holdfast.model.audit import Act, ActDraft, SealedAct, check_act, read_act, seal_act
from holdfast.model.hash_chain import EMPTY, Head
from holdfast.model.jobs import DEFAULT_NAMESPACE
from holdfast.store.executor import Executor, Row, Transaction
from holdfast.store.tables.payloads import need_namespace


class SqlAudit:
    def __init__(self, executor: Executor) -> None:
        self._executor = executor

    async def write(self, act: ActDraft) -> Act:
        checked = check_act(act)

        async def work(tx: Transaction) -> SealedAct:
            return await write_act_in(tx, checked)

        return read_act(await self._executor.write(work))

    async def read(
        self, *, namespace: str = DEFAULT_NAMESPACE, after: int = 0, limit: int = 100
    ) -> tuple[SealedAct, ...]:
        async def work(tx: Transaction) -> Sequence[Row]:
            return await tx.rows("list_acts", namespace=namespace, after=after, limit=limit)

        return tuple(SealedAct(*row) for row in await self._executor.read(work))

    async def head(self, *, namespace: str = DEFAULT_NAMESPACE) -> Head:
        async def work(tx: Transaction) -> Row | None:
            return await tx.row("get_audit_head", namespace=namespace)

        row = await self._executor.read(work, brief=True)
        return EMPTY if row is None else Head(*row)


async def write_act_in(tx: Transaction, act: ActDraft) -> SealedAct:
    """Append the line of this action within the transaction, unless it is already there."""
    await need_namespace(tx, act.namespace)
    row = await tx.row("lock_audit_head", namespace=act.namespace)
    if row is None:
        await tx.run("create_audit_head", namespace=act.namespace, hash=EMPTY.hash)
        row = await tx.row("lock_audit_head", namespace=act.namespace)
        assert row is not None, "it was made a moment ago"
    known = await tx.row("find_act", namespace=act.namespace, act_id=act.act_id)
    if known is not None:
        return SealedAct(*known)
    wall = await tx.row("read_wall_clock")
    assert wall is not None, "there is always a time"
    sealed = seal_act(act, Head(*row), wall[0])
    await tx.run(
        "insert_act",
        namespace=act.namespace,
        seq=sealed.seq,
        act_id=sealed.act_id,
        at=sealed.at,
        what=sealed.what,
        body=sealed.body,
        hash=sealed.hash,
    )
    await tx.run("advance_audit_head", namespace=act.namespace, seq=sealed.seq, hash=sealed.hash)
    return sealed
