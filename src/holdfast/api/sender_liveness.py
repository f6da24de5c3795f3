"""Sender liveness: whether the process that sent a call may still be sending it.

An uncertain call was cut off: its worker was taken over before it recorded the outcome. A worker whose event loop
runs has cancelled the call by the end of its timeout, which the quiet period covers. A stopped process (SIGSTOP, a
suspended machine) has not: it continues in the middle of the call when it is resumed.
"""

from __future__ import annotations

from holdfast.api.job_snapshot import Loaded
from holdfast.engine.host_processes import HostProcesses
from holdfast.errors import InvalidMove
from holdfast.model.events import JobClaimed, ToolCalled, ToolFailed
from holdfast.model.worker_identity import identity_in, is_neighbour, short_name
from holdfast.model.worker_presence import SeenWorker, WorkerState
from holdfast.store.contract import Store


def find_sender(job: Loaded, step_key: str, generation: int) -> str | None:
    """The worker that recorded the intent of a call and not its outcome; None if it recorded both."""
    fence = None
    for fact in job.facts:
        match fact.event:
            case ToolCalled() if (fact.event.step_key, fact.event.generation) == (step_key, generation):
                fence = fact.fence
            case ToolFailed() if fact.fence == fence and fact.event.step_key == step_key:
                return None
    for fact in reversed(job.facts):
        if isinstance(fact.event, JobClaimed) and fact.fence == fence:
            return fact.event.worker
    return None


async def check_not_standing_still(store: Store, job: Loaded, step_key: str, generation: int) -> None:
    """Raises InvalidMove if the process that sent the call is stopped and alive."""
    sender = find_sender(job, step_key, generation)
    if sender is None or not (_is_stopped_here(store, sender) or await _is_silent(store, sender)):
        return
    identity = identity_in(sender)
    end_it = (
        "End its process" if identity is None else f"End its process (kill -9 {identity.pid} on its host)"
    )
    msg = (
        f"worker {short_name(sender)}, which sent the call, is stopped but alive and may still send it: "
        "it is too early to decide that it did not happen"
    )
    raise InvalidMove(
        msg, hint=f"{end_it}, then repeat the command; --happened, --skip and --fail are allowed now."
    )


def _is_stopped_here(store: Store, worker: str) -> bool:
    """Whether it is a stopped process of this host."""
    processes = HostProcesses(store.clock.boot())
    this_host, identity = processes.here(), identity_in(worker)
    if this_host is None or identity is None or not is_neighbour(identity, this_host):
        return False
    return processes.look_up(identity.pid) == identity.began and processes.is_stopped(identity.pid)


async def _is_silent(store: Store, worker: str) -> bool:
    """Whether its lease is renewed while its event loop sends no heartbeats: code blocks the loop."""
    rows = await store.leases.workers()
    if not any(lease.worker == worker for lease in rows):
        return False
    presence = await _find_presence(store, worker)
    return presence is not None and presence.state is WorkerState.LOST


async def _find_presence(store: Store, worker: str) -> SeenWorker | None:
    cursor: str | None = None
    while True:
        page = await store.presences.list(cursor=cursor)
        for worker_seen in page.items:
            if worker_seen.presence.worker == worker:
                return worker_seen
        if page.next is None:
            return None
        cursor = page.next
