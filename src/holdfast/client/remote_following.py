"""What comes of a job, over HTTP."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import aclosing
from typing import Any, Final

import msgspec

from holdfast.client.following_protocol import SAME
from holdfast.client.paths import path
from holdfast.client.records import Reply, Walk
from holdfast.client.remote_operating import RemoteOperating
from holdfast.errors import NotOver, StoreUnavailable
from holdfast.model.jobs import Submitted
from holdfast.model.streams import AttemptSuperseded, Chunk

WAIT_MS: Final = 20_000
STREAM_TRIES: Final = 5
_SHAPES: Final[dict[str, type[Chunk | AttemptSuperseded]]] = {
    "chunk": Chunk,
    "attempt_superseded": AttemptSuperseded,
}


class RemoteFollowing(RemoteOperating):
    """See `holdfast.client.following_protocol.Following`."""

    async def stream(
        self, job_id: str, *, after: str | None = None, stream: str | None = None
    ) -> AsyncGenerator[Chunk | AttemptSuperseded, None]:
        """A stream that is cut off is asked for again, from the last cursor on. One that brings nothing new, again and
        again, is given up."""
        params = {} if stream is None else {"stream": stream}
        tries = 0
        while True:
            if after is not None:
                params["after"] = after
            try:
                async with aclosing(self._lines(path("api", "jobs", job_id, "stream"), params, {})) as lines:
                    async for kind, data in _events(lines):
                        if kind == "end":
                            return
                        one = msgspec.json.decode(data, type=_SHAPES[kind])
                        after, tries = one.cursor, 0
                        yield one
            except StoreUnavailable:
                if tries >= STREAM_TRIES:
                    raise
            tries += 1
            if tries > STREAM_TRIES:
                msg = f"the stream of job {job_id} was cut off too often"
                raise StoreUnavailable(msg)

    async def reply(self, job_id: str, *, timeout_s: float | None = None) -> Reply:
        left_ms = None if timeout_s is None else max(int(timeout_s * 1000), 0)
        while True:
            wait_ms = WAIT_MS if left_ms is None else min(left_ms, WAIT_MS)
            try:
                return await self._get(path("api", "jobs", job_id, "reply"), Reply, wait_ms=wait_ms)
            except NotOver:
                if left_ms is not None:
                    left_ms -= wait_ms
                    if left_ms <= 0:
                        raise

    async def walk(self, job_id: str) -> Walk:
        return await self._get(path("api", "jobs", job_id, "replay"), Walk)

    async def fork(
        self,
        job_id: str,
        *,
        at: str | int,
        input: Any = SAME,  # noqa: A002 -- the word for it everywhere else
        fork_id: str | None = None,
        request_key: str | None = None,
        edits: Mapping[str, Any] | None = None,
        by: str = "",
        why: str = "",
    ) -> Submitted:
        named = self._ids.new("job") if (fork_id, request_key) == (None, None) else fork_id
        body: dict[str, Any] = {"at": at, "id": named, "request_key": request_key}
        if input is not SAME:
            body["input"] = input
        if edits:
            body |= {"edits": dict(edits), "by": by, "why": why}
        return await self._post(path("api", "jobs", job_id, "fork"), body, Submitted)


async def _events(lines: AsyncIterator[str]) -> AsyncIterator[tuple[str, str]]:
    """Server-sent events: their kind and their data."""
    kind, data = "", ""
    async for line in lines:
        if line.startswith("event: "):
            kind = line.removeprefix("event: ")
        elif line.startswith("data: "):
            data = line.removeprefix("data: ")
        elif not line and kind:
            yield kind, data
            kind, data = "", ""
