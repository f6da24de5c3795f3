"""Store clock of a host: its offset is a row in the store, shared by all processes of one boot."""

from __future__ import annotations

from holdfast.store.executor import Executor, Row, Transaction
from holdfast.store.store_clock import HostStoreClock


async def begin_host_clock(executor: Executor, clock: HostStoreClock) -> None:
    """Set the clock to the store's offset for this boot; the first process of a boot decides it."""

    async def look(tx: Transaction) -> bool:
        return clock.adopt(*_unpack_clock(await tx.row("read_store_clock")))

    async def begin(tx: Transaction) -> None:
        boot, offset_us, seen_at = _unpack_clock(await tx.row("lock_store_clock"))
        if not clock.adopt(boot, offset_us, seen_at):  # another process may have been first
            clock.begin_boot(seen_at)
            await tx.run("save_store_clock", **clock.row())

    async def keep() -> None:
        async def work(tx: Transaction) -> None:
            await tx.run("save_store_clock", **clock.row())

        await executor.write(work)

    if not await executor.read(look, brief=True):
        await executor.write(begin)
    clock.keep = keep


def _unpack_clock(row: Row | None) -> tuple[str, int, int]:
    assert row is not None, "a store has a clock since it was made or migrated"
    boot, offset_us, seen_at = row
    return boot, offset_us, seen_at
