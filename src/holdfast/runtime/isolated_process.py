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
from holdfast.runtime.crash_injection import add_crash_points
from holdfast.runtime.isolation import Handover
from holdfast.runtime.lease_setup import make_lease
from holdfast.runtime.process import RunOptions, make_runner_config
from holdfast.runtime.store_opener import open_store
from holdfast.runtime.tracing import add_spans
from holdfast.store.clock import SystemClock
from holdfast.worker.isolation import IsolatedWorker, ProgressMeter
from holdfast.worker.maintenance import Neighbours


@asynccontextmanager
async def open_isolated(
    programs: Mapping[str, Program],
    address: str,
    handed: Handover,
    how: RunOptions,
) -> AsyncIterator[IsolatedWorker]:
    """Opens the worker of the job that is handed over, under its own name."""
    progress, ids = ProgressMeter(), RandomIds()
    meter = add_spans(os.environ, progress)
    store = add_crash_points(await open_store(address), os.environ)
    try:
        neighbours = Neighbours(HostProcesses(SystemClock().boot()))
        config = make_runner_config(
            store, programs, address, neighbours, StreamWriter(store.streams), meter, how
        )
        name = neighbours.my_name(lone_label(handed.label, os.getppid()))
        lease = make_lease(name, address, store, neighbours, meter, ends_when_blocked=True)
        worker = IsolatedWorker(
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
