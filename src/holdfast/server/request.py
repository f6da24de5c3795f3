"""API request: a request with its path, query and body parsed and checked, and the server state for its handler."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, TypeVar
from urllib.parse import parse_qsl

import msgspec
from starlette.requests import ClientDisconnect, Request

from holdfast.api.context import ApiContext, Caller
from holdfast.api.operation import Operation, from_wire
from holdfast.api.requests import EmptyRequest
from holdfast.client.client import Client
from holdfast.client.in_process import InProcessTransport
from holdfast.engine.streams import StreamWriter
from holdfast.errors import InvalidPayload, NotAllowed, NotFound, TooLarge, Unavailable
from holdfast.model import canonical
from holdfast.model.ids import IdSource, check_name
from holdfast.model.jobs import DEFAULT_NAMESPACE, JobHead
from holdfast.model.limits import NAME_LENGTH_MAX
from holdfast.registry.connect import NatsLink
from holdfast.registry.registry import Registry
from holdfast.server.access import Gate
from holdfast.server.health import Pulse
from holdfast.server.idempotency import HEADER, key_of
from holdfast.server.metrics.gauges import Gauges
from holdfast.server.metrics.meter import Metrics
from holdfast.server.origin_checks import Principal
from holdfast.server.problems import Refusal
from holdfast.server.settings import Settings
from holdfast.server.time_series import Numbers
from holdfast.store.clock import Clock
from holdfast.store.contract import Store

T = TypeVar("T")

_AT: Final = re.compile(r" - at `\$([^`]*)`$")
_PART: Final = re.compile(r"\.([^.\[]+)|\[(\d+|\.\.\.)\]")
_CLOSE: Final = {"Connection": "close"}


class House:
    """Server state that all requests share: the store, the clock, and whether the server is draining."""

    def __init__(
        self,
        store: Store,
        clock: Clock,
        ids: IdSource,
        settings: Settings,
        gate: Gate,
        metrics: Metrics,
        gauges: Gauges,
        scribe: StreamWriter | None = None,
        nats: NatsLink | None = None,
    ) -> None:
        self.store = store
        self.gate = gate
        self.clock = clock
        self.ids = ids
        self.settings = settings
        self.scribe = scribe
        self.metrics = metrics
        self.gauges = gauges
        self.pulse = Pulse(store, clock)
        self.numbers = Numbers(store)
        self.nats = nats
        self.draining = asyncio.Event()
        self.streams: dict[str, int] = {}
        """The number of open streams by reader."""
        self.registry = None if nats is None else Registry(nats.place, store.clock.calendar_us)
        """The registry of external agents of the default namespace, if it is not in the store."""

    def ready(self, capability: str) -> None:
        """Publishes a hint to waiting external agents that there may be work with this capability."""
        if self.nats is not None:
            self.nats.hints.ready(capability)


@dataclass(frozen=True, slots=True)
class ApiRequest:
    """One request. `query` and `body` are of the types that the endpoint declares."""

    house: House
    principal: Principal
    request: Request
    path: dict[str, str]
    query: Any
    body: Any
    request_id: str = ""

    @property
    def api(self) -> ApiContext:
        """The context of operations: this namespace, this caller."""
        state = self.house
        is_default = self.principal.namespace == DEFAULT_NAMESPACE
        return ApiContext(
            store=state.store,
            clock=state.clock,
            ids=state.ids,
            namespace=self.principal.namespace,
            caller=Caller(self.principal.name, self.request_id),
            notify_ready=state.ready,
            external_registry=state.registry if is_default else None,
        )

    @property
    def client(self) -> Client:
        return Client(InProcessTransport(self.api))

    @property
    def store(self) -> Store:
        return self.house.store

    @property
    def namespace(self) -> str:
        return self.principal.namespace

    def key(self, in_body: str | None = None, *, field_name: str = "operation_id") -> str | None:
        """The caller's idempotency key for this request, if it has one."""
        return key_of(self.request.headers.get(HEADER), in_body, field_name=field_name)

    def by(self, name: str) -> str:
        """The author of a command for the journal: the name in the request, and the id of its API key."""
        key_id = self.principal.key_id
        if key_id is None or len(name) > NAME_LENGTH_MAX:
            return name
        if not name:
            return self.principal.name
        came_with = f" (key {key_id})"
        return name[: NAME_LENGTH_MAX - len(came_with)] + came_with

    async def head(self) -> JobHead:
        """The head of the job in the path. A job of another namespace does not exist here."""
        job_id = check_name(self.path["job_id"], "job id")
        head = await self.store.jobs.head(job_id)
        if head.namespace != self.namespace:
            msg = f"there is no job {job_id!r}"
            raise NotFound(msg)
        return head


async def read_body(
    request: Request, shape: type[T], settings: Settings, count: Callable[[int], None] = lambda _: None
) -> T:
    """The body as this type. A body that is too large is rejected before it is read, or as soon as it exceeds the
    limit.

    `read` is called with the number of bytes.
    """
    return _fitted(await _read_json(request, settings, count), shape, strict=True)


async def read_operation(
    request: Request,
    operation: Operation[Any, Any],
    path: dict[str, str],
    settings: Settings,
    count: Callable[[int], None] = lambda _: None,
) -> Any:
    """The request of an operation, from path and query, or from path and body."""
    if not operation.has_body:
        return _fitted(from_wire(operation, path, _read_pairs(request)), operation.request, strict=False)
    read_query(request, EmptyRequest)
    value = await _read_json(request, settings, count)
    fields = from_wire(operation, path, value) if isinstance(value, dict) else value
    return _fitted(fields, operation.request, strict=True)


async def _read_json(request: Request, settings: Settings, count: Callable[[int], None]) -> Any:
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != "application/json":
        msg = f"the content type is {kind or 'missing'!r}, and must be application/json"
        raise Refusal(
            415, NotAllowed(msg, hint="Send JSON, with Content-Type: application/json."), headers=_CLOSE
        )
    data = await _bytes_of(request, settings)
    count(len(data))
    try:
        return canonical.decode(data, bytes_max=settings.body_bytes_max) if data.strip() else {}
    except TooLarge:
        raise
    except InvalidPayload as error:
        raise Refusal(400, error) from None


async def _bytes_of(request: Request, settings: Settings) -> bytes:
    most = settings.body_bytes_max
    declared = request.headers.get("content-length", "")
    if declared.isdecimal() and int(declared) > most:
        raise _too_large(most)
    data = bytearray()
    try:
        async with asyncio.timeout(settings.body_timeout_s):
            async for chunk in request.stream():
                data += chunk
                if len(data) > most:
                    raise _too_large(most)
    except TimeoutError:
        msg = f"the body did not come within {settings.body_timeout_s:g} s"
        raise Refusal(408, Unavailable(msg), headers=_CLOSE) from None
    except ClientDisconnect:
        raise Refusal(400, InvalidPayload("the body was cut off"), headers=_CLOSE) from None
    return bytes(data)


def _too_large(most: int) -> Refusal:
    return Refusal(413, TooLarge(f"the body is larger than {most:,} bytes"), headers=_CLOSE)


def read_query(request: Request, shape: type[T]) -> T:
    """The query as this type."""
    return _fitted(_read_pairs(request), shape, strict=False)


def _read_pairs(request: Request) -> dict[str, str]:
    """The query; a repeated parameter is rejected."""
    text = request.scope["query_string"]
    try:
        pairs = parse_qsl(text.decode("ascii"), keep_blank_values=True, errors="strict")
    except ValueError:
        raise InvalidPayload("the query is not UTF-8", hint="Percent-encode it.") from None
    values: dict[str, str] = {}
    for name, value in pairs:
        if name in values:
            raise InvalidPayload(f"the query says {name!r} twice", hint="Say it once.")
        values[name] = value
    return values


def _fitted(value: Any, shape: type[T], *, strict: bool) -> T:
    try:
        return msgspec.convert(value, shape, strict=strict)
    except msgspec.ValidationError as error:
        text = str(error)
        match = _AT.search(text)
        pointer = pointer_of(match[1]) if match else ""
        wrong = InvalidPayload(_AT.sub("", text), hint="See /api/openapi.json for what fits here.")
        raise Refusal(422, wrong, pointer=pointer) from None


def pointer_of(place: str) -> str:
    """A path of msgspec as a JSON pointer: `.items[0].kind` is `/items/0/kind`."""
    parts = [name or number for name, number in _PART.findall(place)]
    return "".join("/" + part.replace("~", "~0").replace("/", "~1") for part in parts)
