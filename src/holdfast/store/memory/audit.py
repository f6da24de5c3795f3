"""Audit log in memory."""

from __future__ import annotations

from holdfast.model.audit import Act, ActDraft, SealedAct, check_act, read_act, seal_act
from holdfast.model.hash_chain import EMPTY, Head
from holdfast.model.jobs import DEFAULT_NAMESPACE
from holdfast.store.memory.state import MemoryState, MemoryTransaction


class MemoryAudit:
    def __init__(self, state: MemoryState) -> None:
        self._state = state

    async def write(self, act: ActDraft) -> Act:
        with self._state.transaction() as work:
            return read_act(add_line(work, check_act(act)))

    async def read(
        self, *, namespace: str = DEFAULT_NAMESPACE, after: int = 0, limit: int = 100
    ) -> tuple[SealedAct, ...]:
        return self._state.tables.acts.get(namespace, ())[after : after + limit]

    async def head(self, *, namespace: str = DEFAULT_NAMESPACE) -> Head:
        return _find_head(self._state.tables.acts.get(namespace, ()))


def add_line(work: MemoryTransaction, act: ActDraft) -> SealedAct:
    """Append the line of this action, unless it is already there."""
    work.need_namespace(act.namespace)
    lines = work.tables.acts.get(act.namespace, ())
    for line in lines:
        if line.act_id == act.act_id:
            return line
    new = seal_act(act, _find_head(lines), work.wall)
    work.tables.acts[act.namespace] = (*lines, new)
    return new


def _find_head(lines: tuple[SealedAct, ...]) -> Head:
    return Head(lines[-1].seq, lines[-1].hash) if lines else EMPTY
