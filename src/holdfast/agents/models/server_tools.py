"""Requests in which the provider does things on its own: runs code, calls other servers.

They are not reads. Nobody knows what a request has done whose answer was lost, so it is an unsafe call: never made
again by itself, and a person is asked.
"""

from __future__ import annotations

from collections.abc import Set as AbstractSet
from typing import Any, Final

from holdfast.agents.models import sse
from holdfast.agents.models.provider_response import BAD, Live, Send, Served, Unreachable
from holdfast.agents.models.wire_format import Body, Wire
from holdfast.engine.durable_call import CallPolicy, DurableCall
from holdfast.engine.execution import Execution
from holdfast.engine.streams import VOICE
from holdfast.errors import Refused
from holdfast.model import canonical
from holdfast.model.limits import BLOB_BYTES_MAX
from holdfast.model.side_effects import Effect
from holdfast.model.time import MINUTE

LONGEST_US: Final = 30 * MINUTE
_NOTHING_SENT: Final = frozenset(
    {"ConnectError", "ConnectTimeout", "PoolTimeout", "UnsupportedProtocol", "ProxyError"}
)


async def run_server_tool_request(
    drive: Execution, wire: Wire, body: Body, send: Send, ignored: AbstractSet[str] = frozenset()
) -> Served:
    """The answer, whole; live or from the record. Fields that are `ignored` do not make it another call."""

    async def run(_key: str) -> Any:
        try:
            live = await send(body)
        except Unreachable as error:
            if error.kind in _NOTHING_SENT:
                raise Refused(f"{error.kind}: {error}") from error
            raise
        try:
            return await _taken(live, wire, body)
        finally:
            await live.close()

    terms = CallPolicy(effect=Effect.UNSAFE, longest_call_us=LONGEST_US)
    identity = {name: value for name, value in body.items() if name not in ignored}
    kept = await drive.call(DurableCall(wire.name, body, run, terms, same=identity))
    if not body.get("stream") or kept["status"] >= BAD:
        data = canonical.encode(kept["body"])
        return Served(kept["status"], {"content-type": "application/json"}, data, "")
    events = wire.to_stream(kept["body"], body)
    data = b"".join(sse.encode_event(name, said) for name, said in events)
    return Served(kept["status"], {"content-type": "text/event-stream"}, data, "")


async def _taken(live: Live, wire: Wire, body: Body) -> Any:
    voice = VOICE.get()
    streams = bool(body.get("stream")) and live.status < BAD
    gathering = wire.gathering(body) if streams else None
    reader, read = sse.SseReader(), bytearray()
    async for piece in live.pieces():
        if gathering is None:
            read += piece
            continue
        for name, data in reader.feed(piece):
            heard = gathering.take(name, data)
            if heard is not None and heard.text and voice is not None:
                voice.say(heard.text, heard.stream)
    value = (
        canonical.decode(bytes(read), bytes_max=BLOB_BYTES_MAX) if gathering is None else gathering.message()
    )
    return {"status": live.status, "body": value}
