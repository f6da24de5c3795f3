"""Durable request: one request to a model, from the client's body to the bytes it gets back.

The client is whatever people use; what is journaled is what goes over the wire. So everything a client can do (parsed
output, stream helpers, raw responses) works as ever, live and in replay, and its types are its own. Clients retry by
themselves; here they do not, because a wait for a busy provider may be long, and then nobody should hold the job.

What is said against a request is an answer too, and so is a connection that could not be had in all attempts. The same
error reaches the code in replay.
"""

from __future__ import annotations

import asyncio
import contextvars
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AsyncExitStack
from typing import Any, Final

import msgspec

from holdfast.agents.models import sse
from holdfast.agents.models.prices import Price, find_price
from holdfast.agents.models.provider_limits import ProviderLimiter, RequestPolicy
from holdfast.agents.models.provider_response import (
    BAD,
    Failure,
    Live,
    ProviderRefusal,
    Send,
    Served,
    Unreachable,
    to_errors,
)
from holdfast.agents.models.response_cache import Cache
from holdfast.agents.models.stream_relay import Flow
from holdfast.agents.models.wire_format import Body, Wire
from holdfast.engine.durable_call import encode_result
from holdfast.engine.execution import Execution
from holdfast.engine.model_requests import ModelAnswer, ModelCall, Request, open_request
from holdfast.errors import HoldfastError
from holdfast.model import canonical
from holdfast.model.limits import BLOB_BYTES_MAX
from holdfast.model.retry import is_transient_status
from holdfast.model.time import SECOND

KEPT_HEADERS: Final = ("retry-after", "retry-after-ms")


class _Later(msgspec.Struct, frozen=True):
    """Not now: again at this time."""

    at: int


class Exchange(msgspec.Struct, frozen=True, kw_only=True):
    """What all requests of one client have in common."""

    patience: RequestPolicy = RequestPolicy()
    prices: Mapping[str, Price] = {}
    cache: Cache | None = None
    gates: dict[str, ProviderLimiter] = msgspec.field(default_factory=dict)
    ignore: frozenset[str] = frozenset()
    """Fields that are not part of a request's identity, beside those of its wire."""
    parks_repurchases: bool = False
    to_errors: Callable[[Failure], tuple[Exception, ...]] = to_errors
    """What a failure is for the code that asks: the client's own error, and that of the library below it."""

    async def serve(self, drive: Execution, wire: Wire, body: Body, send: Send) -> Served:
        """The answer, from the record or from the provider; that of the model's stand-in, if it stays away."""
        seen = {body.get("model")}
        while True:
            other = self.patience.fallback.get(str(body.get("model")))
            is_last = other is None or other in seen
            try:
                served = await _One(self, drive, wire, body, send).served()
                if is_last or not is_transient_status(served.status):
                    return served
            except Unreachable:
                if is_last:
                    raise
            seen.add(other)
            body = {**body, "model": other}

    def gate(self, model: str) -> ProviderLimiter:
        return self.gates.setdefault(model, ProviderLimiter(self.patience.limits))

    def measure_usage(self, wire: Wire, model: str, response: Body) -> dict[str, Any]:
        """What the answer used up, in tokens and, if its price is known, in money."""
        usage = wire.usage(response)
        told: dict[str, Any] = msgspec.to_builtins(usage)
        price = find_price(model, self.prices)
        if price is not None:
            told["usd_micros"] = price.of(usage)
        return told


class _One:
    """One request to one model, through as many attempts as patience allows."""

    def __init__(self, exchange: Exchange, drive: Execution, wire: Wire, body: Body, send: Send) -> None:
        self._exchange = exchange
        self._drive = drive
        self._wire = wire
        self._body = body
        self._send = send
        self._request = request_of(wire, body, exchange.ignore)
        self._gate = exchange.gate(self._request.model)

    async def served(self) -> Served:
        asking = await open_request(self._drive, self._request)
        if asking.answer is not None:
            return self._replayed(asking, asking.answer)
        try:
            kept = await self._kept(asking)
            if kept is not None:
                return kept
            await asking.check_repurchase(park=self._exchange.parks_repurchases)
            await asking.rest(asking.retry_at)  # a worker may have died in the pause before the next attempt
            while True:
                served = await self._attempt(asking)
                if isinstance(served, Served):
                    return served
                await asking.rest(served.at)
        except asyncio.CancelledError:
            await asking.record_cancelled()
            raise

    async def _kept(self, asking: ModelCall) -> Served | None:
        """What somebody else was answered to the very same question, if that is wanted."""
        cache, store = self._exchange.cache, self._drive.store
        if cache is None or store is None:
            return None
        with asking.working():
            found = await cache.find(store, self._drive.owner.namespace, self._request)
        self._drive.meter.record_cache_lookup(hit=found is not None)
        if found is None:
            return None
        asking.begin()
        answer = ModelAnswer(found, {"cached": True})
        await asking.record_answer(answer)
        return self._replayed(asking, answer)

    async def _attempt(self, asking: ModelCall) -> Served | _Later:
        await asking.afford()
        now = asking.now_us()
        opens_at = self._gate.opens_at(now)
        if opens_at > now:
            return _Later(opens_at)
        async with AsyncExitStack() as stack:
            with asking.working():
                await stack.enter_async_context(self._gate.slot())
            self._gate.record_request(asking.now_us())
            asking.begin()
            try:
                with asking.working():
                    live, data = await self._send_within(stack)
            except Unreachable as error:
                return await self._unreachable(asking, error)
            if data is None:
                return self._flowing(asking, live, stack.pop_all())
        return await self._whole(asking, live, data)

    async def _send_within(self, stack: AsyncExitStack) -> tuple[Live, bytes | None]:
        """The answer within its time, and its bytes; none yet, if it is streamed."""
        limit_us = self._exchange.patience.timeout_us
        timeout = asyncio.timeout(None if limit_us is None else limit_us / SECOND)
        try:
            async with timeout:
                live = await self._send(self._body)
                stack.push_async_callback(live.close)
                is_streamed = bool(self._body.get("stream")) and live.status < BAD
                return live, None if is_streamed else await _read(live)
        except TimeoutError:
            if not timeout.expired() or limit_us is None:
                raise
            msg = f"no answer within {limit_us / SECOND:g} s"
            raise Unreachable("ReadTimeout", msg) from None

    def _flowing(self, asking: ModelCall, live: Live, stack: AsyncExitStack) -> Served:
        flow = Flow(asking, live.pieces(), self._wire.gathering(self._body), self._answer, self._keep, stack)
        return Served(live.status, dict(live.headers), flow.stream(), asking.step_key, flow.close)

    async def _whole(self, asking: ModelCall, live: Live, data: bytes) -> Served | _Later:
        if live.status >= BAD:
            refusal = ProviderRefusal(live.status, live.headers, data)
            later = self._later(asking, refusal, _retry_after_us(live.headers))
            if later is not None:
                return later
        value = _json(data)
        if live.status >= BAD:
            headers = {name: live.headers[name] for name in KEPT_HEADERS if name in live.headers}
            answer = ModelAnswer(error={"status": live.status, "body": value, "headers": headers})
        else:
            answer = self._answer(asking, value)
        await asking.record_answer(answer)
        await self._keep(answer)
        return self._replayed(asking, answer)

    async def _keep(self, answer: ModelAnswer) -> None:
        cache, store = self._exchange.cache, self._drive.store
        if cache is not None and store is not None and answer.error is None:
            await cache.keep(store, self._drive.owner.namespace, self._request, answer.response)

    async def _unreachable(self, asking: ModelCall, error: Unreachable) -> _Later:
        later = self._later(asking, error, None)
        if later is not None:
            return later
        await asking.record_answer(ModelAnswer(error={"kind": error.kind, "message": str(error)}))
        raise asking.note_error(error)

    def _later(self, asking: ModelCall, failure: Failure, retry_after_us: int | None) -> _Later | None:
        """When the next attempt is due, with the one that failed on record; None, if there is no other."""
        if isinstance(failure, Unreachable) or is_transient_status(failure.status):
            self._gate.record_failure(asking.now_us(), retry_after_us)
        patience, errors = self._exchange.patience, self._exchange.to_errors(failure)
        failed_attempts = asking.failed_attempts + 1
        wait_us = patience.wait_us(failed_attempts, errors, asking.chance(), retry_after_us)
        if wait_us is None:
            return None
        at = asking.now_us() + wait_us
        asking.record_failure(errors[0], patience.retry.attempts, at)
        return _Later(at)

    def _answer(self, asking: ModelCall, value: Any) -> ModelAnswer:
        """The answer as it is kept; or that it cannot be."""
        if not isinstance(value, dict):
            return ModelAnswer(error={"status": 502, "body": value, "headers": {}})
        told = self._exchange.measure_usage(self._wire, self._request.model, value)
        self._gate.record_answer(asking.now_us(), told.get("input", 0) + told.get("output", 0))
        try:
            encode_result(value)
        except HoldfastError as error:
            said = {"type": "error", "error": {"type": "unkept_answer", "message": str(error)}}
            return ModelAnswer(usage=told, error={"status": 422, "body": said, "headers": {}})
        return ModelAnswer(value, told)

    def _replayed(self, asking: ModelCall, answer: ModelAnswer) -> Served:
        """What is on record, in the form in which it was asked for."""
        error = answer.error
        if error is not None and "part" in error:
            return Served(
                200, {"content-type": "text/event-stream"}, self._part(asking, error), asking.step_key
            )
        if error is not None and "kind" in error:
            raise asking.note_error(Unreachable(error["kind"], error["message"]))
        if error is not None and error["status"] >= BAD:
            headers = {**error["headers"], "content-type": "application/json"}
            return Served(error["status"], headers, canonical.encode(error["body"]), asking.step_key)
        if not self._body.get("stream"):
            body = canonical.encode(answer.response)
            return Served(200, {"content-type": "application/json"}, body, asking.step_key)
        events = [("error", error["body"])] if error else self._wire.to_stream(answer.response, self._body)
        pieces = b"".join(sse.encode_event(name, data) for name, data in events)
        return Served(200, {"content-type": "text/event-stream"}, pieces, asking.step_key)

    async def _part(self, asking: ModelCall, error: Any) -> AsyncIterator[bytes]:
        """What its reader had of a stream when it left; for whoever reads on there is an error."""
        gathering = self._wire.gathering(self._body)
        for name, data in self._wire.to_stream(error["part"], self._body):
            piece = sse.encode_event(name, data)
            for one in sse.SseReader().feed(piece):
                gathering.take(*one)
            if gathering.complete:
                break
            yield piece
        raise asking.note_error(Unreachable(error["kind"], error["message"]))


class KnownRequest(msgspec.Struct, frozen=True):
    """So many messages at the beginning of a conversation are kept under a name already."""

    count: int
    name: str


KNOWN: Final[contextvars.ContextVar[KnownRequest | None]] = contextvars.ContextVar(
    "holdfast_known", default=None
)
"""What the request that is being made begins with. It goes this way because a client lies in between."""


def request_of(wire: Wire, body: Body, ignore: frozenset[str] = frozenset()) -> Request:
    """The request as the engine knows it."""
    model, params, messages = wire.split(body)
    known = KNOWN.get()
    if known is not None:
        messages = messages[known.count :]
    ignored = wire.ignored | ignore
    reduced = None
    if not ignored.isdisjoint(params):
        kept = {name: value for name, value in params.items() if name not in ignored}
        reduced = canonical.encode(kept, bytes_max=BLOB_BYTES_MAX)
    return Request(
        name=wire.name,
        model=model,
        params=canonical.encode(params, bytes_max=BLOB_BYTES_MAX),
        messages=tuple(canonical.encode(message, bytes_max=BLOB_BYTES_MAX) for message in messages),
        after="" if known is None else known.name,
        ignored=ignored,
        reduced=reduced,
        messages_field=wire.messages_field,
    )


async def _read(live: Live) -> bytes:
    read = bytearray()
    async for piece in live.pieces():
        read += piece
        if len(read) > BLOB_BYTES_MAX:
            raise Unreachable("DecodingError", f"an answer of more than {BLOB_BYTES_MAX:,} bytes")
    return bytes(read)


def _retry_after_us(headers: Mapping[str, str]) -> int | None:
    for name, unit in (("retry-after-ms", 1000), ("retry-after", SECOND)):
        try:
            return int(float(headers[name]) * unit)
        except (KeyError, ValueError, OverflowError):
            continue
    return None


def _json(data: bytes) -> Any:
    try:
        return canonical.decode(data, bytes_max=BLOB_BYTES_MAX)
    except HoldfastError:
        return data.decode("utf-8", "replace")[:10_000]
