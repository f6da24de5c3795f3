"""Lease setup of a worker process: lease renewal, the renewal thread, and the watchdog with its limit.

HOLDFAST_LEASE_TTL=30s         how long the worker may be silent before others take its jobs over
HOLDFAST_BLOCKING_LIMIT=5m     how long code may block its event loop before it gives up its jobs
"""

from __future__ import annotations

import logging
import os
from typing import Final

import msgspec

from holdfast.engine.lease_renewal import LeaseRenewal
from holdfast.engine.telemetry import Telemetry
from holdfast.errors import HoldfastError, InvalidSetting
from holdfast.model.ids import RandomIds
from holdfast.model.lease import LEASE_TTL_US
from holdfast.model.time import SECOND, parse_duration
from holdfast.runtime.store_opener import open_store
from holdfast.store.contract import Store, Tier
from holdfast.worker.maintenance import Neighbours
from holdfast.worker.renewal_thread import RenewalThread
from holdfast.worker.watchdog import BLOCKING_LIMIT_S, REMEDY, Watchdog

LEASE_TTL_SETTING: Final = "HOLDFAST_LEASE_TTL"
BLOCKING_LIMIT_SETTING: Final = "HOLDFAST_BLOCKING_LIMIT"
GIVE_UP_S: Final = 10.0
BLOCKED_STATUS: Final = 70
"""The exit status of a worker that ended because code blocked its event loop for too long."""

log = logging.getLogger("holdfast")


class LeaseParts(msgspec.Struct, frozen=True):
    """The parts that keep the lease of one worker."""

    renewal: LeaseRenewal
    thread: RenewalThread | None
    watchdog: Watchdog


def make_lease(
    worker: str,
    address: str,
    store: Store,
    neighbours: Neighbours,
    meter: Telemetry,
    *,
    ends_when_blocked: bool,
) -> LeaseParts:
    """Makes the parts for a worker of this process. A store in memory has no other process that could take a lease
    over, and needs no thread."""
    ids = RandomIds()
    renewal = LeaseRenewal(
        worker,
        store.clock,
        lambda: ids.new("lease"),
        identity=neighbours.my_identity() or "",
        ttl_us=_read_duration(LEASE_TTL_SETTING, LEASE_TTL_US),
        meter=meter,
    )
    thread = (
        None
        if store.tier is Tier.MEMORY
        else RenewalThread(lambda: open_store(address, migrating=False), neighbours.processes)
    )
    return LeaseParts(renewal, thread, _make_watchdog(thread, ends=ends_when_blocked))


def _make_watchdog(thread: RenewalThread | None, *, ends: bool) -> Watchdog:
    limit_s = _read_duration(BLOCKING_LIMIT_SETTING, int(BLOCKING_LIMIT_S * SECOND)) / SECOND

    def give_up(report: str) -> None:
        log.error(
            "the event loop has been blocked for %.0f s: this worker gives up its jobs%s. %s sets the limit.\n%s\n%s",
            limit_s,
            " and ends" if ends else " until the loop goes on",
            BLOCKING_LIMIT_SETTING,
            report,
            REMEDY,
        )
        if thread is not None:
            thread.give_up(GIVE_UP_S)
        if ends:
            for handler in logging.getLogger().handlers:
                handler.flush()
            os._exit(BLOCKED_STATUS)

    resume = (lambda: None) if thread is None else thread.resume
    return Watchdog(limit_s=limit_s, on_limit=give_up, on_answer=resume)


def _read_duration(name: str, default_us: int) -> int:
    text = os.environ.get(name, "").strip()
    if not text:
        return default_us
    try:
        duration_us = parse_duration(text)
    except HoldfastError as error:
        msg = f"{name}={text!r} is no duration"
        raise InvalidSetting(msg, hint=f"For example {name}=30s.") from error
    if duration_us < SECOND:
        msg = f"{name}={text!r} is less than a second"
        raise InvalidSetting(msg, hint=f"For example {name}=30s.")
    return duration_us
