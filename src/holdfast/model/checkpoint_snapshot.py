"""What a commit of state carries over: all that is still to come, and nothing of what is over.

A job that made a checkpoint is resumed from it. Of the facts before it only a few still count: signals that nobody has
taken, children that have not ended, limits that were reached, who held the job, how far its mail was read, when a
person let it go on. They go into the checkpoint's own fact, under the same hash as its state. So a resume reads the
journal from there on and needs none of it before, however long it is. `verify` compares what was carried with what the
whole journal says.

What is too much to write down again with every checkpoint is not carried: that job is resumed from its whole journal.
"""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING, Any

import msgspec

from holdfast.model import canonical
from holdfast.model.limits import CARRIED_BYTES_MAX
from holdfast.model.replay_history import RecordedSignal

if TYPE_CHECKING:
    from holdfast.model.replay_history import History


class Carried(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """The history and the fold of the journal before a checkpoint, as far as either is needed after it.

    `origin` is the digest of the job's first fact, which is read as well: the job's input lies there.
    """

    origin: str
    worker: str
    claims: int
    mail_seq: int = 0
    born: int = 0
    children: dict[str, str] = {}
    signals: tuple[RecordedSignal, ...] = ()
    allowed: tuple[tuple[str, str, int], ...] = ()
    sleeps: int = 0
    pythons: tuple[str, ...] = ()
    misfit: str | None = None
    resumed_at: int = 0


def take_snapshot(history: History) -> Carried | None:
    """What of this history outlives a commit; None, if somebody has asked for the job's end, which nothing outlives."""
    if history.cancelled or not history.origin:
        return None
    return Carried(
        history.origin,
        history.worker,
        history.claims,
        history.heard,
        history.born,
        dict(history.children),
        tuple(
            sorted(chain.from_iterable(history.signals.values()), key=lambda one: (one.mail_seq, one.name))
        ),
        tuple(sorted((*reached, allowed) for reached, allowed in history.stops.allowed.items())),
        history.stops.sleeps,
        tuple(sorted(history.pythons)),
        history.misfit,
        history.resumed_at,
    )


def carry(carried: Carried, history: History) -> None:
    """The history, which was empty, is as it was before the commit that comes next."""
    history.origin, history.worker, history.claims = carried.origin, carried.worker, carried.claims
    history.heard, history.born, history.misfit = carried.mail_seq, carried.born, carried.misfit
    history.children, history.pythons = dict(carried.children), set(carried.pythons)
    for signal in carried.signals:
        history.signals[signal.name].append(signal)
    history.stops.allowed = {(budget, limit): allowed for budget, limit, allowed in carried.allowed}
    history.stops.sleeps = carried.sleeps
    history.resumed_at = carried.resumed_at


def pack_snapshot(carried: Carried | None) -> Any:
    """It as JSON; None, if there is none, or too much to write down again and again."""
    told = None if carried is None else msgspec.to_builtins(carried)
    return told if len(canonical.encode(told)) <= CARRIED_BYTES_MAX else None


def unpack_snapshot(carries: Any) -> Carried | None:
    """What a checkpoint carries; None, if its job is to be resumed from the whole journal."""
    try:
        return None if carries is None else msgspec.convert(carries, Carried)
    except msgspec.ValidationError:
        return None  # a newer Holdfast carries more than we know of
