"""Server tools: requests in which the provider itself acts: runs code, calls other servers.

Such a request is not a read. When its response is lost, its effects are unknown, so it is an unsafe call: never
repeated automatically, a person decides.
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
    execution: Execution, wire: Wire, body: Body, send: Send, ignored: AbstractSet[str] = frozenset()
) -> Served:
    """The whole response, live or recorded. The `ignored` fields are not part of the call's identity."""

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
    recorded = await execution.call(DurableCall(wire.name, body, run, terms, same=identity))
    if not body.get("stream") or recorded["status"] >= BAD:
        data = canonical.encode(recorded["body"])
        return Served(recorded["status"], {"content-type": "application/json"}, data, "")
    events = wire.to_stream(recorded["body"], body)
    data = b"".join(sse.encode_event(name, event_data) for name, event_data in events)
    return Served(recorded["status"], {"content-type": "text/event-stream"}, data, "")


async def _taken(live: Live, wire: Wire, body: Body) -> Any:
    voice = VOICE.get()
    streams = bool(body.get("stream")) and live.status < BAD
    gathering = wire.gathering(body) if streams else None
    reader, received = sse.SseReader(), bytearray()
    async for piece in live.pieces():
        if gathering is None:
            received += piece
            continue
        for name, data in reader.feed(piece):
            streamed = gathering.take(name, data)
            if streamed is not None and streamed.text and voice is not None:
                voice.say(streamed.text, streamed.stream)
    value = (
        canonical.decode(bytes(received), bytes_max=BLOB_BYTES_MAX)
        if gathering is None
        else gathering.message()
    )
    return {"status": live.status, "body": value}
