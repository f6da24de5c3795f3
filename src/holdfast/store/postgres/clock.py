"""Looks at the Postgres server's clock, and records its steps."""

from __future__ import annotations

from typing import Final

from holdfast.store.postgres.connections import Connection
from holdfast.store.postgres.transaction import PostgresTransaction
from holdfast.store.store_clock import ClockReading, ServerStoreClock, warn_of_step

TRIES: Final = 5
"""Looks before it gives up. It looks again after each step that it, or meanwhile another process, has recorded."""


async def read_server_clock(connection: Connection, clock: ServerStoreClock) -> None:
    """Read the server's clock, so that the store clock predicts from now on; record a step if there is one. Any thread
    may call it, on a connection of its own event loop."""
    tx = PostgresTransaction(connection, clock)
    submitted_at = 0
    if not clock.is_known:
        submitted = await tx.row("find_latest_submission")
        submitted_at = 0 if submitted is None or submitted[0] is None else submitted[0]
    for _ in range(TRIES):
        asked_tick = clock.tick_us()
        row = await tx.row("read_server_clock", settled=clock.read_settled_us())
        assert row is not None, "a store has a clock since it was made or migrated"
        server_us, step_us, epoch, seen_at = row
        look = ClockReading(server_us, step_us, epoch, seen_at, asked_tick, clock.tick_us(), submitted_at)
        new_step_us = clock.judge(look)
        if new_step_us is None:
            return
        if await tx.row("record_clock_step", step_us=new_step_us, epoch=epoch) is not None:
            warn_of_step(new_step_us - step_us, "the database server's")
