"""Durable request: one request to a model, from the client's request body to the bytes of its response.

The journal holds what goes over the wire, independent of the client. So everything that a client can do (parsed
output, stream helpers, raw responses) works as usual, live and in replay, with its own types. A client's own retries
are off here, because a wait for a busy provider may be long, and during it the job should hold neither a worker nor a
lease.

An error response is recorded like any response, and so is a connection that failed in all attempts. In a replay the
code gets the same error.
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
    """The next attempt is due at this time."""

    at: int


class Exchange(msgspec.Struct, frozen=True, kw_only=True):
    """The configuration that all requests of one client share."""

    patience: RequestPolicy = RequestPolicy()
    prices: Mapping[str, Price] = {}
    cache: Cache | None = None
    gates: dict[str, ProviderLimiter] = msgspec.field(default_factory=dict)
    ignore: frozenset[str] = frozenset()
    """Fields that are not part of a request's identity, beside those of its wire."""
    parks_repurchases: bool = False
    to_errors: Callable[[Failure], tuple[Exception, ...]] = to_errors
    """Converts a failure to the errors that the calling code may expect: the client's own, and that of its HTTP
    library."""

    async def serve(self, execution: Execution, wire: Wire, body: Body, send: Send) -> Served:
        """The response, from the journal or from the provider; from the fallback model if the model stays
        unavailable."""
        tried = {body.get("model")}
        while True:
            other = self.patience.fallback.get(str(body.get("model")))
            is_last = other is None or other in tried
            try:
                served = await _One(self, execution, wire, body, send).served()
                if is_last or not is_transient_status(served.status):
                    return served
            except Unreachable:
                if is_last:
                    raise
            tried.add(other)
            body = {**body, "model": other}

    def gate(self, model: str) -> ProviderLimiter:
        return self.gates.setdefault(model, ProviderLimiter(self.patience.limits))

    def measure_usage(self, wire: Wire, model: str, response: Body) -> dict[str, Any]:
        """The tokens that the response used and, if the price is known, its cost."""
        usage = wire.usage(response)
        measured: dict[str, Any] = msgspec.to_builtins(usage)
        price = find_price(model, self.prices)
        if price is not None:
            measured["usd_micros"] = price.of(usage)
        return measured


class _One:
    """One request to one model, with all attempts that the request policy allows."""

    def __init__(self, exchange: Exchange, execution: Execution, wire: Wire, body: Body, send: Send) -> None:
        self._exchange = exchange
        self._execution = execution
        self._wire = wire
        self._body = body
        self._send = send
        self._request = request_of(wire, body, exchange.ignore)
        self._gate = exchange.gate(self._request.model)

    async def served(self) -> Served:
        asking = await open_request(self._execution, self._request)
        if asking.answer is not None:
            return self._replayed(asking, asking.answer)
        try:
            cached = await self._kept(asking)
            if cached is not None:
                return cached
            await asking.check_repurchase(park=self._exchange.parks_repurchases)
            await asking.rest(asking.retry_at)  # a worker may have died in the pause before this attempt
            while True:
                served = await self._attempt(asking)
                if isinstance(served, Served):
                    return served
                await asking.rest(served.at)
        except asyncio.CancelledError:
            await asking.record_cancelled()
            raise

    async def _kept(self, asking: ModelCall) -> Served | None:
        """The cached response of another job to the identical request, if the client has a cache."""
        cache, store = self._exchange.cache, self._execution.store
        if cache is None or store is None:
            return None
        with asking.working():
            cached = await cache.find(store, self._execution.owner.namespace, self._request)
        self._execution.meter.record_cache_lookup(hit=cached is not None)
        if cached is None:
            return None
        asking.begin()
        answer = ModelAnswer(cached, {"cached": True})
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
        """Sends the request within its timeout; returns the response and its bytes, or None in their place if it is
        streamed."""
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
        cache, store = self._exchange.cache, self._execution.store
        if cache is not None and store is not None and answer.error is None:
            await cache.keep(store, self._execution.owner.namespace, self._request, answer.response)

    async def _unreachable(self, asking: ModelCall, error: Unreachable) -> _Later:
        later = self._later(asking, error, None)
        if later is not None:
            return later
        await asking.record_answer(ModelAnswer(error={"kind": error.kind, "message": str(error)}))
        raise asking.note_error(error)

    def _later(self, asking: ModelCall, failure: Failure, retry_after_us: int | None) -> _Later | None:
        """Records the failed attempt; returns when the next one is due, or None if there is no other."""
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
        """The response as it is recorded; or an error, if it cannot be stored."""
        if not isinstance(value, dict):
            return ModelAnswer(error={"status": 502, "body": value, "headers": {}})
        usage = self._exchange.measure_usage(self._wire, self._request.model, value)
        self._gate.record_answer(asking.now_us(), usage.get("input", 0) + usage.get("output", 0))
        try:
            encode_result(value)
        except HoldfastError as error:
            body = {"type": "error", "error": {"type": "unkept_answer", "message": str(error)}}
            return ModelAnswer(usage=usage, error={"status": 422, "body": body, "headers": {}})
        return ModelAnswer(value, usage)

    def _replayed(self, asking: ModelCall, answer: ModelAnswer) -> Served:
        """The recorded response in the requested form: whole, or as a stream."""
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
        """Replays the part of a stream that its reader got before it left. A reader that continues beyond it gets an
        error."""
        gathering = self._wire.gathering(self._body)
        for name, data in self._wire.to_stream(error["part"], self._body):
            piece = sse.encode_event(name, data)
            for event in sse.SseReader().feed(piece):
                gathering.take(*event)
            if gathering.complete:
                break
            yield piece
        raise asking.note_error(Unreachable(error["kind"], error["message"]))


class KnownRequest(msgspec.Struct, frozen=True):
    """The first `count` messages of a conversation are already stored under `name`."""

    count: int
    name: str


KNOWN: Final[contextvars.ContextVar[KnownRequest | None]] = contextvars.ContextVar(
    "holdfast_known", default=None
)
"""The stored messages that the current request begins with. A context variable passes it, because a client lies in
between."""


def request_of(wire: Wire, body: Body, ignore: frozenset[str] = frozenset()) -> Request:
    """The request in the engine's form."""
    model, params, messages = wire.split(body)
    known = KNOWN.get()
    if known is not None:
        messages = messages[known.count :]
    ignored = wire.ignored | ignore
    reduced = None
    if not ignored.isdisjoint(params):
        remaining = {name: value for name, value in params.items() if name not in ignored}
        reduced = canonical.encode(remaining, bytes_max=BLOB_BYTES_MAX)
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
    received = bytearray()
    async for piece in live.pieces():
        received += piece
        if len(received) > BLOB_BYTES_MAX:
            raise Unreachable("DecodingError", f"an answer of more than {BLOB_BYTES_MAX:,} bytes")
    return bytes(received)


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
