"""Ledger over SQL. Appends write the rows; the model decides which transitions are allowed."""

from __future__ import annotations

from holdfast.errors import InvalidMove, KeyReused
from holdfast.model.hash_chain import SealedEvent
from holdfast.model.ledger import CallRow
from holdfast.model.side_effects import CALL_MOVES, CallStatus, Effect
from holdfast.store.executor import Executor, Row, Transaction, Value
from holdfast.store.ports.ledger import Receipt
from holdfast.store.tables.payloads import to_enum

_COLUMNS = CallRow.__struct_fields__


class SqlLedger:
    def __init__(self, executor: Executor) -> None:
        self._executor = executor

    async def find(self, job_id: str, step_key: str, generation: int = 0) -> CallRow | None:
        async def work(tx: Transaction) -> CallRow | None:
            return await _find_call(tx, job_id, step_key, generation)

        return await self._executor.read(work, brief=True)

    async def receipt(self, job_id: str, step_key: str) -> Receipt | None:
        # Point lookups, one after the other: on SQLite three of them are faster than one joined statement.
        async def work(tx: Transaction) -> Receipt | None:
            call, generation = None, 0
            while (row := await _find_call(tx, job_id, step_key, generation)) is not None:
                call, generation = row, generation + 1
            if call is None:
                return None
            event = None
            if call.result_seq is not None:
                event = await tx.row("get_event", job_id=job_id, seq=call.result_seq)
            return Receipt(call, None if event is None else SealedEvent(*event))

        return await self._executor.read(work, brief=True)

    async def find_by_key(self, idempotency_key: str) -> CallRow | None:
        async def work(tx: Transaction) -> CallRow | None:
            return _to_call(await tx.row("find_call_by_key", idempotency_key=idempotency_key))

        return await self._executor.read(work, brief=True)

    async def list(self, job_id: str, *, status: CallStatus | None = None) -> list[CallRow]:
        async def work(tx: Transaction) -> list[CallRow]:
            return [_to_call_row(row) for row in await tx.rows("list_calls", job_id=job_id, status=status)]

        return await self._executor.read(work)

    async def counts(self, namespace: str) -> dict[tuple[str, str, str], int]:
        async def work(tx: Transaction) -> dict[tuple[str, str, str], int]:
            rows = await tx.rows("count_calls", namespace=namespace)
            return {(tool, effect, status): count for tool, effect, status, count in rows}

        return await self._executor.read(work)


async def write_call(tx: Transaction, job_id: str, call: CallRow) -> None:
    """Write the row of a call, if the ledger's rules allow the transition."""
    if call.job_id != job_id:
        msg = f"call {call.step_key} of job {call.job_id} cannot be written by job {job_id}"
        raise InvalidMove(msg, hint="A job writes its own ledger only.")
    before = await _find_call(tx, call.job_id, call.step_key, call.generation)
    namesake = _to_call(await tx.row("find_call_by_key", idempotency_key=call.idempotency_key)) or before
    if namesake is not None and _get_identity(namesake) != _get_identity(call):
        msg = f"idempotency key {call.idempotency_key} was used for another call or other arguments"
        raise KeyReused(msg, stored=namesake.args_digest, sent=call.args_digest)
    status = None if before is None else before.status
    if call.status not in CALL_MOVES[status]:
        msg = f"call {call.step_key} of job {call.job_id} cannot go from {status} to {call.status}"
        raise InvalidMove(msg, hint="A settled call stays as it is; a new try is a new generation.")
    await tx.run("insert_call" if before is None else "update_call", **_to_values(call, new=before is None))


def _get_identity(call: CallRow) -> tuple[str, str, int, str, str]:
    return (call.job_id, call.step_key, call.generation, call.idempotency_key, call.args_digest)


_KEPT = frozenset(
    {
        "tool_call_id",
        "tool_name",
        "raw_tool_name",
        "side_effect_class",
        "idempotency_key",
        "args_digest",
        "intent_seq",
        "prepared_at",
    }
)


def _to_values(call: CallRow, *, new: bool) -> dict[str, Value]:
    return {name: getattr(call, name) for name in _COLUMNS if new or name not in _KEPT}


async def _find_call(tx: Transaction, job_id: str, step_key: str, generation: int) -> CallRow | None:
    return _to_call(await tx.row("get_call", job_id=job_id, step_key=step_key, generation=generation))


def _to_call(row: Row | None) -> CallRow | None:
    return None if row is None else _to_call_row(row)


def _to_call_row(row: Row) -> CallRow:
    values = dict(zip(_COLUMNS, row, strict=True))
    values["side_effect_class"] = to_enum(Effect, values["side_effect_class"])
    values["status"] = to_enum(CallStatus, values["status"])
    return CallRow(**values)
