"""Streams over SQL."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from holdfast.model import canonical
from holdfast.model.streams import START, Cursor, Passage
from holdfast.store.executor import Executor, Row, Transaction
from holdfast.store.ports.streams import StreamAppend, check_stream_append


class SqlStreams:
    def __init__(self, executor: Executor) -> None:
        self._executor = executor

    async def append(self, passages: Sequence[StreamAppend]) -> list[bool]:
        for passage in passages:
            check_stream_append(passage)
        # In id order, like every transaction that locks several heads.
        places = sorted(
            range(len(passages)),
            key=lambda place: (passages[place].held.job_id, passages[place].passage.last),
        )

        async def work(tx: Transaction) -> list[bool]:
            written = [False] * len(passages)
            for place in places:
                written[place] = await _append(tx, passages[place])
            return written

        return await self._executor.write(work)

    async def read(self, job_id: str, *, after: Cursor = START, limit: int = 100) -> list[Passage]:
        async def work(tx: Transaction) -> Sequence[Row]:
            return await tx.rows(
                "list_passages", job_id=job_id, fence=after.fence, last=after.number, limit=limit
            )

        return [
            Passage(fence, last, chunks, _decode_voices(voices), bytes(body), at)
            for fence, last, chunks, voices, at, body in await self._executor.read(work)
        ]

    async def attempts(self, job_id: str) -> dict[str, int]:
        async def work(tx: Transaction) -> Sequence[Row]:
            return await tx.rows("list_voices", job_id=job_id)

        rows = await self._executor.read(work, brief=True)
        return dict(sorted(voice for row in rows for voice in _decode_voices(row[0])))


async def _append(tx: Transaction, held_passage: StreamAppend) -> bool:
    held, passage = held_passage.held, held_passage.passage
    row = await tx.row(
        "append_passage",
        job_id=held.job_id,
        fence=held.fence,
        lease_token=held.lease_token,
        last=passage.last,
        chunks=passage.chunks,
        voices=canonical.encode(passage.voices).decode(),
        body=passage.body,
    )
    if row is not None:
        tx.hint(f"stream:{held.job_id}")
        return True
    place = await tx.row("has_passage", job_id=held.job_id, fence=held.fence, last=passage.last)
    return place is not None


def _decode_voices(text: str) -> tuple[tuple[str, int], ...]:
    return msgspec.json.decode(text, type=tuple[tuple[str, int], ...])
