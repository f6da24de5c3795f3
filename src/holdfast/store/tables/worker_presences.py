"""Presences of workers over SQL."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from holdfast.errors import NotFound, StoreCorrupt
from holdfast.model import canonical
from holdfast.model.audit import ActDraft, check_act
from holdfast.model.page import Page, decode_cursor, encode_cursor
from holdfast.model.worker_presence import (
    FORGOTTEN_US,
    HeartbeatReply,
    Presence,
    SeenWorker,
    WorkerOffer,
    check_drains,
    check_presence,
    state_of,
)
from holdfast.store.executor import Executor, Row, Transaction
from holdfast.store.tables.audit import write_act_in
from holdfast.store.tables.payloads import read_json


class SqlPresences:
    def __init__(self, executor: Executor) -> None:
        self._executor = executor

    async def beat(self, presence: Presence) -> HeartbeatReply:
        check_presence(presence)
        offer = canonical.encode(msgspec.to_builtins(presence.offer))

        async def work(tx: Transaction) -> Sequence[Row]:
            await tx.run(
                "record_heartbeat",
                worker=presence.worker,
                identity=presence.identity,
                host=presence.host,
                pid=presence.pid,
                offer=offer,
                draining=int(presence.draining),
            )
            await tx.run("remove_silent_workers", silent_us=FORGOTTEN_US)
            return await tx.rows("list_worker_identities")

        rows = await self._executor.write(work)
        return HeartbeatReply(
            listed={worker: identity for worker, identity, _ in rows},
            drain=any(asked_at is not None for worker, _, asked_at in rows if worker == presence.worker),
        )

    async def list(self, *, limit: int = 100, cursor: str | None = None) -> Page[SeenWorker]:
        after = "" if cursor is None else str(decode_cursor("workers", cursor, keys=1)[0])

        async def work(tx: Transaction) -> Sequence[Row]:
            return await tx.rows("list_workers", after=after, limit=limit + 1, silent_us=FORGOTTEN_US)

        found = [_to_seen_worker(row) for row in await self._executor.read(work)]
        more = encode_cursor("workers", found[limit - 1].presence.worker) if len(found) > limit > 0 else None
        return Page(tuple(found[:limit]), more)

    async def ask_to_drain(self, worker: str, act: ActDraft) -> SeenWorker:
        line = check_act(act)
        requested: list[bool] = []

        async def work(tx: Transaction) -> SeenWorker:
            check_drains((await _get(tx, worker)).presence)
            requested.append(await tx.row("request_drain", worker=worker) is not None)
            if any(requested):  # by this try, or by one whose reply was lost
                await write_act_in(tx, line)
            return await _get(tx, worker)

        return await self._executor.write(work)

    async def remove(self, worker: str, identity: str) -> bool:
        removed: list[bool] = []

        async def work(tx: Transaction) -> bool:
            removed.append(await tx.row("remove_worker", worker=worker, identity=identity) is not None)
            return any(removed)  # by this try, or by one whose reply was lost

        return await self._executor.write(work)


async def _get(tx: Transaction, worker: str) -> SeenWorker:
    row = await tx.row("find_worker", worker=worker, silent_us=FORGOTTEN_US)
    if row is None:
        msg = f"there is no worker {worker!r}"
        raise NotFound(msg, hint="`holdfast worker list` lists them.")
    return _to_seen_worker(row)


def _to_seen_worker(row: Row) -> SeenWorker:
    worker, identity, host, pid, encoded, draining, started_at, seen_at, asked_at, holds, now = row
    try:
        offer = msgspec.convert(read_json(encoded, f"the presence of {worker}"), WorkerOffer)
    except msgspec.ValidationError as error:
        msg = f"the presence of worker {worker} is damaged: {error}"
        raise StoreCorrupt(msg) from error
    presence = Presence(
        worker=worker, identity=identity, host=host, pid=pid, offer=offer, draining=bool(draining)
    )
    return SeenWorker(
        presence=presence,
        state=state_of(draining=presence.draining, seen_at=seen_at, now=now),
        started_at=started_at,
        seen_at=seen_at,
        holds=holds,
        drain_asked_at=asked_at,
    )
