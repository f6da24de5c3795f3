"""An executor whose payloads are encrypted on their way into the database, and opened on their way out.

Tables know nothing of it. What is encrypted goes by the names of parameters, which mean the same in all statements;
what is to be opened is recognised by its form. A namespace's key is found through the namespace among the values, or
through the job, whose namespace never changes.

In the clear stay names (ids, keys, kinds, tools, reasons of waiting), times, numbers, digests and hashes: what routing,
fencing and the chain are made of.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, Final, TypeVar

from holdfast.model.envelope import is_sealed
from holdfast.model.jobs import DEFAULT_NAMESPACE
from holdfast.store.executor import Executor, Row, Transaction, Value, Work

if TYPE_CHECKING:
    from holdfast.store.codec import Codec

T = TypeVar("T")

PAYLOADS: Final = frozenset(
    {"body", "configuration", "request", "checkpoint", "states", "assignment", "snapshot", "meta"}
)
"""Parameters that hold what somebody said."""

COLUMNS: Final = frozenset({"each_body", "event_body", "bodies", "node_bodys"})
"""The same, for many rows at once."""

_PLACED_BY: Final = (
    "job_id", "mail_seq", "session_id", "node_id", "frame_id", "batch_id", "item_index", "fence", "last",
    "agent_id", "schedule_id",
)  # fmt: skip
_EVENT: Final = frozenset({"insert_event", "append_one"})
_QUOTED: Final = re.compile(r'"((?:[^"\\]|\\.)*)"')
_JOBS_MAX: Final = 100_000


class SealingTransaction:
    """A transaction in which payloads are plain, over one in which they are not."""

    seals = True

    def __init__(self, inner: Transaction, outer: SealingExecutor) -> None:
        self._inner = inner
        self._outer = outer

    @property
    def batches(self) -> bool:
        return self._inner.batches

    async def rows(self, statement: str, /, **values: Value) -> Sequence[Row]:
        return self._outer.opened(
            statement, values, await self._inner.rows(statement, **await self._sealed(statement, values))
        )

    async def row(self, statement: str, /, **values: Value) -> Row | None:
        row = await self._inner.row(statement, **await self._sealed(statement, values))
        return None if row is None else self._outer.opened(statement, values, [row])[0]

    async def run(self, statement: str, /, **values: Value) -> None:
        await self._inner.run(statement, **await self._sealed(statement, values))

    async def rows_each(self, statement: str, values: Sequence[dict[str, Value]], /) -> Sequence[Row]:
        return await self._inner.rows_each(
            statement, [await self._sealed(statement, each) for each in values]
        )

    async def changed_each(self, statement: str, values: Sequence[dict[str, Value]], /) -> int:
        return await self._inner.changed_each(
            statement, [await self._sealed(statement, each) for each in values]
        )

    def hint(self, topic: str) -> None:
        self._inner.hint(topic)

    async def _sealed(self, statement: str, values: dict[str, Value]) -> dict[str, Value]:
        for job_id in self._outer.strangers(statement, values):
            row = await self._inner.row("job_head", job_id=job_id)
            self._outer.learn(job_id, DEFAULT_NAMESPACE if row is None else row[1])
        return self._outer.sealed(statement, values)


class SealingExecutor:
    """An executor over another one. Everything else that it is asked is the other's to answer."""

    seals = True

    def __init__(self, inner: Executor, codec: Codec) -> None:
        self._inner = inner
        self._codec = codec
        self._namespaces: dict[str, str] = {}

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    @property
    def batches(self) -> bool:
        return self._inner.batches

    async def write(self, work: Work[T], *, gathered: bool = False) -> T:
        return await self._inner.write(self._over(work), gathered=gathered)

    def write_now(self, work: Work[T]) -> T | None:
        return self._inner.write_now(self._over(work))

    async def write_each(self, works: Sequence[Work[T]]) -> list[Any]:
        return await self._inner.write_each([self._over(work) for work in works])

    async def read(self, work: Work[T], *, snapshot: bool = False, brief: bool = False) -> T:
        return await self._inner.read(self._over(work), snapshot=snapshot, brief=brief)

    async def once(self, statement: str, /, **values: Value) -> Sequence[Row]:
        unknown = self.strangers(statement, values)
        if unknown:

            async def look(tx: Transaction) -> None:
                for job_id in unknown:
                    row = await tx.row("job_head", job_id=job_id)
                    self.learn(job_id, DEFAULT_NAMESPACE if row is None else row[1])

            await self._inner.read(look, brief=True)
        return self.opened(
            statement, values, await self._inner.once(statement, **self.sealed(statement, values))
        )

    def spread(self, topics: Iterable[str]) -> None:
        self._inner.spread(topics)

    def _over(self, work: Work[T]) -> Work[T]:
        async def sealed(tx: Transaction) -> T:
            return await work(SealingTransaction(tx, self))

        return sealed

    # ── whose it is ───────────────────────────────────────────────────────────────────────────────

    def learn(self, job_id: str, namespace: str) -> None:
        if len(self._namespaces) >= _JOBS_MAX:
            self._namespaces.clear()
        self._namespaces[job_id] = namespace

    def strangers(self, statement: str, values: dict[str, Any]) -> list[str]:
        """Jobs whose namespace must be known before this can be sealed, and is not."""
        if not (PAYLOADS | COLUMNS) & values.keys():
            return []
        for job_id, namespace in zip(_listed(values, "job_id"), _listed(values, "namespace"), strict=False):
            self.learn(job_id, namespace)
        if "namespace" in values or "each_namespace" in values:
            return []
        return [
            job_id for job_id, _ in _places(statement, values) if job_id and job_id not in self._namespaces
        ]

    # ── in and out ────────────────────────────────────────────────────────────────────────────────

    def sealed(self, statement: str, values: dict[str, Any]) -> dict[str, Any]:
        """The values with ciphertext in place of payloads. They are the caller's, and stay as they were."""
        changed: dict[str, Any] = {}
        for name in PAYLOADS & values.keys():
            data = values[name]
            if isinstance(data, bytes) and data:
                namespace = self._namespace(values, str(values.get("job_id") or ""))
                changed[name] = self._codec.seal(namespace, _place(statement, name, values), data)
        for name in COLUMNS & values.keys():
            changed[name] = self._column(statement, name, values)
        return {**values, **changed} if changed else values

    def _column(self, statement: str, name: str, values: dict[str, Any]) -> list[bytes | None]:
        bodies: Any = values[name]
        if name == "node_bodys":
            nodes: Any = values["node_node_ids"]
            places = [("", f"put_node/{values['session_id']}/{node}#body") for node in nodes]
        else:
            places = _places(statement, values)
        return [
            body if not body else self._codec.seal(self._namespace(values, job_id), place, body)
            for body, (job_id, place) in zip(bodies, places, strict=True)
        ]

    def _namespace(self, values: dict[str, Any], job_id: str) -> str:
        named = values.get("namespace")
        return named if isinstance(named, str) else self._namespaces.get(job_id, DEFAULT_NAMESPACE)

    def opened(self, statement: str, values: dict[str, Any], rows: Sequence[Row]) -> Sequence[Row]:
        """The rows with payloads in place of ciphertext."""
        if not any(is_sealed(cell) for row in rows for cell in row):
            return rows
        return [
            tuple(
                self._codec.open(cell, _expected(statement, values, row)) if is_sealed(cell) else cell
                for cell in row
            )
            for row in rows
        ]


def _place(statement: str, name: str, values: dict[str, Any]) -> str:
    if statement in _EVENT:
        return f"event/{values['job_id']}/{values['seq']}"
    if statement == "put_blob":
        digest = values["digest"]
        return f"blob/{digest.hex() if isinstance(digest, bytes) else digest}"
    parts = [str(values[one]) for one in _PLACED_BY if values.get(one) is not None]
    return f"{statement}/{'/'.join(parts)}#{name}"


def _places(statement: str, values: dict[str, Any]) -> list[tuple[str, str]]:
    """The job and the place of each event that the statement writes."""
    if statement in _EVENT:
        return [(str(values["job_id"]), "")]
    match statement:
        case "append_batch":
            seqs = [seq + 1 for seq in _listed(values, "seen_seq")]
        case "submit_batch" | "submit_at_once":
            seqs = [1] * len(_listed(values, "job_id"))
        case "grant_leases":
            jobs: Any = values["job_ids"]
            heads: Any = values["head_seqs"]
            return [(job, f"event/{job}/{seq}") for job, seq in zip(jobs, heads, strict=True)]
        case "append_batch_of_moves":
            each = _listed(values, "job_id")
            jobs = [each[nth - 1] for nth in _as_list(values["event_whose"])]
            numbers = _as_list(values["event_seq"])
            return [(job, f"event/{job}/{seq}") for job, seq in zip(jobs, numbers, strict=True)]
        case _ if "event_body" in values:
            jobs, numbers = _as_list(values["event_job_id"]), _as_list(values["event_seq"])
            return [(job, f"event/{job}/{seq}") for job, seq in zip(jobs, numbers, strict=True)]
        case _:
            job_id = values.get("job_id")
            return [(str(job_id), "")] if job_id else []
    return [(job, f"event/{job}/{seq}") for job, seq in zip(_listed(values, "job_id"), seqs, strict=True)]


def _listed(values: dict[str, Any], name: str) -> list[Any]:
    """One value or a column of them, also where the column is written as an array's literal."""
    if f"each_{name}" in values:
        return _as_list(values[f"each_{name}"])
    return [values[name]] if values.get(name) is not None else []


def _as_list(column: Any) -> list[Any]:
    if not isinstance(column, str):
        return list(column)
    if column.startswith('{"'):
        return [re.sub(r"\\(.)", r"\1", one) for one in _QUOTED.findall(column)]
    return [int(one) for one in column.strip("{}").split(",") if one not in {"", "NULL"}]


def _expected(statement: str, values: dict[str, Any], row: Row) -> tuple[str, ...]:
    """Where an event's body, or a blob, must have been written for; nothing, where another digest will tell."""
    match statement:
        case "read_events" | "read_ends":
            return (f"event/{values['job_id']}/{row[0]}", f"blob/{bytes(row[6]).hex()}")
        case "read_events_of_many":
            return (f"event/{row[0]}/{row[1]}", f"blob/{bytes(row[7]).hex()}")
        case "look_at_job":
            return (f"event/{row[0]}/{row[21]}", f"blob/{bytes(row[27]).hex()}")
        case "get_blob":
            digest: Any = values["digest"]
            return (f"blob/{digest.hex()}",)
        case _:
            return ()
