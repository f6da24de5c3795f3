"""Isolated process: a store, a group commit, and the worker of one job, which runs alone."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager

from holdfast.engine.host_processes import HostProcesses
from holdfast.engine.runner_config import Program
from holdfast.engine.streams import StreamWriter
from holdfast.model.crash_suspects import lone_label
from holdfast.model.ids import RandomIds
from holdfast.runtime.crash_injection import crashing
from holdfast.runtime.isolation import Handed
from holdfast.runtime.lease_setup import make_lease
from holdfast.runtime.process import RunOptions, make_desk
from holdfast.runtime.store_opener import open_store
from holdfast.runtime.tracing import add_spans
from holdfast.store.clock import SystemClock
from holdfast.worker.isolation import LoneWorker, ProgressMeter
from holdfast.worker.maintenance import Neighbours


@asynccontextmanager
async def open_isolated(
    programs: Mapping[str, Program],
    address: str,
    handed: Handed,
    how: RunOptions,
) -> AsyncIterator[LoneWorker]:
    """Opens the worker of the job that is handed over, under its own name."""
    progress, ids = ProgressMeter(), RandomIds()
    meter = add_spans(os.environ, progress)
    store = crashing(await open_store(address), os.environ)
    try:
        neighbours = Neighbours(HostProcesses(SystemClock().boot()))
        config = make_desk(store, programs, address, neighbours, StreamWriter(store.streams), meter, how)
        name = neighbours.my_name(lone_label(handed.label, os.getppid()))
        lease = make_lease(name, address, store, neighbours, meter, ends_when_blocked=True)
        worker = LoneWorker(
            config,
            name,
            lambda: ids.new("claim"),
            handed.lease,
            renewal=lease.renewal,
            renewal_thread=lease.thread,
            watchdog=lease.watchdog,
        )
        progress.subscribe(worker.clear)
        yield worker
    finally:
        await store.close()
