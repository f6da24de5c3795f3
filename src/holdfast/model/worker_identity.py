"""Worker identity: a worker's name identifies its process, which is enough to prove on the same host that it is dead.

    mail-crew@6f1c…-boot/4026531836/4711/88123
    label    boot id         pid namespace / pid / start time

A pid alone proves nothing: pids are reused, a container has its own, and a reboot starts over. Together with the boot,
the namespace and the start time (in the kernel's ticks since boot) it identifies one process for ever. If that process
does not exist, on this boot and in this namespace, it is dead, and its leases may end at once.

The rule only ever proves death. A name of another host, another boot, another namespace, or another form proves
nothing, and such a worker's jobs wait until their leases expire.
"""

from __future__ import annotations

import re
from enum import StrEnum
from typing import Final

import msgspec

from holdfast.model.ids import check_name

_NAME: Final = re.compile(
    r"(?P<label>.*)@(?P<boot>[0-9A-Za-z-]+)/(?P<space>[0-9]+)/(?P<pid>[0-9]{1,10})/(?P<began>[0-9]{1,20})",
    re.DOTALL,
)


class Identity(msgspec.Struct, frozen=True):
    """One process of one boot. `began` is its start time, in ticks of the kernel since boot."""

    boot: str
    space: int
    pid: int
    began: int


class ProcessStatus(StrEnum):
    """The result of looking up a pid, if it is not a start time."""

    GONE = "gone"
    UNKNOWN = "unknown"


def worker_name(label: str, identity: Identity) -> str:
    """The worker name under which this process holds jobs."""
    return check_name(
        f"{label}@{identity.boot}/{identity.space}/{identity.pid}/{identity.began}", "worker name"
    )


def identity_in(name: str) -> Identity | None:
    """The identity in a worker name; None for a name of another form."""
    found = _NAME.fullmatch(name)
    if found is None:
        return None
    return Identity(found["boot"], int(found["space"]), int(found["pid"]), int(found["began"]))


def short_name(name: str) -> str:
    """The name for display: the label and the pid. The rest is for proofs."""
    found = _NAME.fullmatch(name)
    return name if found is None else f"{found['label']}:{found['pid']}"


def is_neighbour(worker: Identity, here: Identity) -> bool:
    """Whether this process can see the other: the same boot of the same host, the same pid namespace."""
    return (worker.boot, worker.space) == (here.boot, here.space)


def is_dead(worker: Identity, here: Identity, seen: int | ProcessStatus) -> bool:
    """Whether the process is proven dead by the lookup of its pid: a start time, or why there is none."""
    if not is_neighbour(worker, here):
        return False
    return seen is ProcessStatus.GONE or (not isinstance(seen, ProcessStatus) and seen != worker.began)
