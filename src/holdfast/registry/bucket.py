"""A key-value bucket in JetStream, with revisions.

It is read from the stream below it, not through the library's bucket: the library drops the time at which a revision
was written, takes an expiry marker for an entry, and cannot tell whether the bucket was replaced.
"""

from __future__ import annotations

import base64
import json
import re
from datetime import UTC, datetime, timedelta
from typing import Any, Final

import msgspec
from nats import errors
from nats.aio.client import Client
from nats.js.api import Header, KeyValueConfig, RawStreamMsg
from nats.js.errors import APIError, BadRequestError, NotFoundError
from nats.js.kv import KV_DEL, KV_MARKER_REASON, KV_OP, KV_PURGE

from holdfast.model.agent_registry import ENTRY_BYTES_MAX
from holdfast.registry.connection import ASK_S

BUCKET: Final = "agent-registry"
WATCH_IDLE_S: Final = 10.0
"""How long the server keeps the consumer of a watcher that has disconnected."""

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_PLAIN_KEY: Final = re.compile(r"[-/_a-zA-Z0-9][-/_=a-zA-Z0-9]*(\.[-/_=a-zA-Z0-9]+)*")
_PLAIN_TOKEN: Final = re.compile(r"[-_a-zA-Z0-9]+")
_WRONG_LAST: Final = (10071, 10164)
"""Error codes of a conditional write whose expected revision is not the last one."""


class Revision(msgspec.Struct, frozen=True, kw_only=True):
    """A revision of a key. Without data: a removal."""

    key: str
    number: int
    data: bytes | None
    written_at: int | None


class BucketState(msgspec.Struct, frozen=True, kw_only=True):
    """State of the bucket: when it was created (it may be replaced), its last revision, and its number of keys."""

    made: str
    last: int
    keys: int


def key_of(guid: str) -> str:
    """The key of an agent: its guid, encoded if it cannot be a key."""
    return guid if _PLAIN_KEY.fullmatch(guid) else _encode_name(guid)


def token_of(name: str) -> str:
    """A name as one token of a subject."""
    return name if _PLAIN_TOKEN.fullmatch(name) else _encode_name(name)


def _encode_name(name: str) -> str:
    return "=" + base64.urlsafe_b64encode(name.encode()).decode().rstrip("=")


class Bucket:
    def __init__(self, client: Client, name: str = BUCKET) -> None:
        self._client = client
        self._name = name
        self._stream = f"KV_{name}"
        self._subject = f"$KV.{name}."
        self._js = client.jetstream(timeout=ASK_S)

    async def ready(self) -> tuple[BucketState, bool]:
        """Create the bucket if there is none; returns its state, and whether it was created."""
        found = await self.state()
        if found is not None:
            return found, False
        config = KeyValueConfig(
            bucket=self._name,
            history=1,
            max_value_size=ENTRY_BYTES_MAX,
            description="agents that say they are there",
        )
        await self._js.create_key_value(config)
        made = await self.state()
        if made is None:
            raise errors.Error(f"the bucket {self._name} was made and is not there")
        return made, True

    async def state(self) -> BucketState | None:
        """The state of the bucket; None if there is none."""
        answer = await self._client.request(f"$JS.API.STREAM.INFO.{self._stream}", b"", timeout=ASK_S)
        info: dict[str, Any] = json.loads(answer.data)
        if "error" in info:
            try:
                APIError.from_error(info["error"])
            except NotFoundError:
                return None
        state = info["state"]
        return BucketState(made=info["created"], last=state["last_seq"], keys=state.get("num_subjects", 0))

    async def get(self, key: str) -> Revision | None:
        """The last revision, as the stream's leader has it."""
        try:
            found = await self._js.get_msg(self._stream, subject=self._subject + key)
        except NotFoundError:
            return None
        return Revision(
            key=key,
            number=found.seq or 0,
            data=None if _is_marker(found) else found.data or b"",
            written_at=_to_instant(found.time),
        )

    async def put(self, key: str, data: bytes, over: int) -> int | None:
        """Write conditionally on revision `over`; returns the number of the new revision, or None if another one is the
        last."""
        return await self._publish(key, data, over, {})

    async def remove(self, key: str, over: int) -> int | None:
        """Write a removal marker conditionally on revision `over`; returns as `put` does."""
        return await self._publish(key, b"", over, {KV_OP: KV_DEL})

    async def watch(self) -> BucketWatch:
        """Watch the bucket: first every key as it is now, then each change."""
        bucket = await self._js.key_value(self._name)
        return BucketWatch(await bucket.watchall(inactive_threshold=WATCH_IDLE_S))

    async def sweep(self, marker: Revision) -> None:
        """Purge a removal marker; a later revision of the key stays."""
        await self._js.purge_stream(self._stream, seq=marker.number + 1, subject=self._subject + marker.key)

    async def _publish(self, key: str, data: bytes, over: int, headers: dict[str, str]) -> int | None:
        headers = {**headers, Header.EXPECTED_LAST_SUBJECT_SEQUENCE: str(over)}
        try:
            done = await self._js.publish(self._subject + key, data, headers=headers)
        except BadRequestError as error:
            if error.err_code in _WRONG_LAST:
                return None
            raise
        return done.seq


class BucketWatch:
    """Changes of a bucket, in order."""

    def __init__(self, watcher: Any) -> None:
        self._watcher = watcher

    async def next(self, wait_s: float) -> Revision | None:
        """The next revision; None once, when all existing keys have been delivered.

        Raises:
            TimeoutError: Nothing came in time.
        """
        entry = await self._watcher.updates(timeout=wait_s)
        if entry is None:
            return None
        return Revision(
            key=entry.key,
            number=entry.revision,
            data=None if entry.operation in {KV_DEL, KV_PURGE} else entry.value or b"",
            written_at=_to_instant(entry.created),
        )

    async def stop(self) -> None:
        await self._watcher.stop()


def _is_marker(found: RawStreamMsg) -> bool:
    headers = found.headers or {}
    return headers.get(KV_OP) in {KV_DEL, KV_PURGE} or KV_MARKER_REASON in headers


def _to_instant(when: datetime | None) -> int | None:
    if when is None:
        return None
    when = when if when.tzinfo is not None else when.replace(tzinfo=UTC)
    return (when - _EPOCH) // timedelta(microseconds=1)
