"""`hf.wrap`: a user's own model client, with every request in the journal.

A wrapped client is a copy of the client over another HTTP transport. A request in an agent's own code is a durable
step; a request in a tool or step belongs to that call; a request outside a job is an ordinary one.

Both clients are built on one HTTP library, under its old or its new name. This module finds it through the client,
and imports nothing of it.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import inspect
import sys
from collections.abc import AsyncIterator, Collection, Mapping
from typing import Any, Final, Literal, NoReturn, TypeVar, cast

from holdfast.agents import context
from holdfast.agents.models.anthropic_wire import AnthropicWire
from holdfast.agents.models.durable_request import Exchange
from holdfast.agents.models.openai_wire import ChatWire, ResponsesWire
from holdfast.agents.models.prices import PRICES, Price
from holdfast.agents.models.provider_limits import Limits, patience_of
from holdfast.agents.models.provider_response import BAD, Failure, Served, Unreachable, to_errors
from holdfast.agents.models.response_cache import Cache
from holdfast.agents.models.server_tools import run_server_tool_request
from holdfast.agents.models.wire_format import PlainWire, Wire
from holdfast.engine import task_scopes
from holdfast.engine.execution import Execution
from holdfast.engine.failures import STEP
from holdfast.engine.replay_scheduler import JOB, ReplayScheduler
from holdfast.engine.run_outcomes import Stopped
from holdfast.errors import InvalidMove, InvalidSetting, Misuse
from holdfast.model import canonical
from holdfast.model.limits import BLOB_BYTES_MAX
from holdfast.model.retry import Retry
from holdfast.model.time import Duration

C = TypeVar("C")

_SHOWN: Final = ("content-type", "retry-after", "retry-after-ms", "request-id", "x-request-id")
"""The response headers that a client gets. Length and encoding described the provider's body; ours is another."""

_WIRES: Final[Mapping[str, Wire]] = {
    "/messages": AnthropicWire(),
    "/messages/count_tokens": PlainWire("anthropic.count_tokens", "anthropic", "messages"),
    "/chat/completions": ChatWire(),
    "/responses": ResponsesWire(),
    "/embeddings": PlainWire("openai.embeddings", "openai"),
    "/moderations": PlainWire("openai.moderations", "openai"),
}


def wrap(
    client: C,
    *,
    retry: Retry | None = None,
    timeout: Duration | None = None,
    fallback: Mapping[str, str] | None = None,
    limits: Limits | None = None,
    prices: Mapping[str, Price] | None = None,
    cache: Cache | None = None,
    ignore: Collection[str] = (),
    on_repurchase: Literal["warn", "park"] = "warn",
) -> C:
    """Wraps a model client: its requests inside an agent are durable. They are recorded, replayed, and streamed to
    the watchers of the job.

    retry: how many attempts a busy or unreachable provider gets, and which errors of the client or of its HTTP
    library are retried. Each failed attempt is recorded, and during a long wait the job holds neither a worker nor a
    lease. The client's own retries are off. timeout: how long one attempt may take, to the whole response, or to the
    first bytes of a streamed one. fallback: the model to request instead of one that stays unavailable. limits: the
    limits of this process for requests to one model. prices: corrections of and additions to the price table, by the
    model's name.

    cache: reuse the response that another job got to the identical request; off by default. ignore: more fields of a
    request that do not change its meaning, beside the known ones. A request that differs from the recorded one only
    in these fields is the recorded one. on_repurchase: what happens when a recorded response would be bought again
    because the request differs: "warn" records it in the journal and logs it, "park" holds the job for a person
    before anything is sent.
    """
    inner = _connection_of(client)
    if inner is None:
        msg = f"{_type_name(client)} is not a model client that can be wrapped"
        raise InvalidSetting(msg, hint=_what_to_wrap(client))
    library, copy = _library_of(inner), client.copy  # type: ignore[attr-defined]
    exchange = Exchange(
        patience=patience_of(retry, timeout, fallback, limits),
        prices={**PRICES, **(prices or {})},
        cache=cache,
        ignore=_check_ignored(ignore),
        parks_repurchases=_check_on_repurchase(on_repurchase) == "park",
        to_errors=functools.partial(_to_errors, client, library),
    )
    if isinstance(inner, library.AsyncClient):
        return cast("C", copy(http_client=_durable(library, inner, exchange), max_retries=0))
    return cast("C", copy(http_client=_refusing(library, inner)))


def _check_ignored(ignore: Collection[str]) -> frozenset[str]:
    if isinstance(ignore, str) or not all(isinstance(name, str) for name in ignore):
        raise InvalidSetting("ignore= is not a list of names", hint='Say ignore=("trace_id",).')
    if forbidden := sorted(
        {"model", "messages", "input", "system", "instructions", "tools"}.intersection(ignore)
    ):
        msg = f"ignore= names {', '.join(forbidden)}, which are part of the question itself"
        raise InvalidSetting(msg, hint="Name only fields that do not change the answer, such as a trace id.")
    return frozenset(ignore)


def _check_on_repurchase(on_repurchase: str) -> str:
    if on_repurchase not in {"warn", "park"}:
        msg = f"on_repurchase={on_repurchase!r} is not known"
        raise InvalidSetting(msg, hint='Say on_repurchase="warn" or "park".')
    return on_repurchase


def _connection_of(client: object) -> Any:
    """The HTTP client inside a model client whose `copy` accepts another one; None if `client` is no such client.

    Only the object's own attributes count, not those that it forwards from an inner client: a copy of that one would
    be the bare client, without the layers around it.
    """
    inner = getattr(client, "__dict__", {}).get("_client")
    copy = inspect.getattr_static(type(client), "copy", None)
    if _library_of(inner) is None or not inspect.isfunction(copy):
        return None
    return inner if "http_client" in inspect.signature(copy).parameters else None


_INSIDE: Final = (
    "client",
    "async_client",
    "root_async_client",
    "root_client",
    "_client",
    "_async_client",
    "openai_client",
)
"""The attributes in which libraries that are built on a model client hold it."""


def _what_to_wrap(client: object) -> str:
    """The hint for a client that cannot be wrapped: wrap the inner client first, if one is visible."""
    for name in _INSIDE:
        inside = getattr(client, name, None)
        if _connection_of(inside) is not None:
            return (
                f"It is built on {_type_name(inside)}. Wrap that one first, and build it on the wrapped client:"
                f" hf.wrap({type(inside).__name__}(…))."
            )
    return (
        "Wrap the client that it is built on (AsyncAnthropic, AsyncOpenAI or their blocking forms) first, and hand it"
        " the wrapped one; put calls of others in a tool."
    )


def _type_name(value: object) -> str:
    return f"{type(value).__module__}.{type(value).__qualname__}"


def _library_of(inner: object) -> Any:
    """The HTTP library that made a client's connection."""
    for base in type(inner).__mro__:
        name = base.__module__.partition(".")[0]
        if name in {"httpx", "httpx2"}:
            return sys.modules[name]
    return None


def _durable(library: Any, inner: Any, exchange: Exchange) -> Any:
    """An HTTP client over this one that makes the requests of an agent's own code durable."""

    class Answered(library.AsyncByteStream):  # type: ignore[misc]
        def __init__(self, served: Served) -> None:
            self._served = served

        async def __aiter__(self) -> AsyncIterator[bytes]:
            if isinstance(self._served.body, bytes):
                yield self._served.body
                return
            try:
                async for piece in self._served.body:
                    yield piece
            except Unreachable as error:
                raise _as_the_client_says(library, error) from error

        async def aclose(self) -> None:
            if self._served.close is not None:
                await self._served.close()

    class _JobTransport(library.AsyncBaseTransport):  # type: ignore[misc]
        async def handle_async_request(self, request: Any) -> Any:
            execution = asking()
            if execution is None:
                return await inner.send(request, stream=True)
            _refuse_own_retry(library, request)
            try:
                served = await _served(execution, library, inner, exchange, request)
            except Unreachable as error:
                raise _as_the_client_says(library, error) from error
            except Misuse as error:
                # The client would report it as a failed connection, and the code could not tell the difference.
                execution.fail(error)
                raise Stopped from error
            headers: dict[str, str] = {
                name: served.headers[name] for name in _SHOWN if name in served.headers
            }
            if served.status >= BAD:
                headers["x-should-retry"] = "false"  # already retried, by a recorded policy
            return library.Response(
                served.status, headers=headers, stream=Answered(served), extensions={STEP: served.step_key}
            )

        async def aclose(self) -> None:
            await inner.aclose()

    return library.AsyncClient(transport=_JobTransport(), timeout=None)


def asking() -> Execution | None:
    """The execution whose own code makes this request; None for the code of a tool and for code outside a job."""
    _refuse_beside_the_job()
    place = task_scopes.find_task_scope()
    return None if place is None or place.inside is not None else context.find_drive()


def _refuse_beside_the_job() -> None:
    """Fails the run if job code makes a request in a thread or on an event loop that is not the job's: such a request
    has no place in the journal, and every replay would buy it again."""
    scheduler = JOB.get()
    if type(scheduler) is not ReplayScheduler:
        return
    loop = asyncio._get_running_loop()  # noqa: SLF001 - without an error where there is none
    if loop is scheduler.loop:
        return
    where = "a thread" if loop is None else "another event loop"
    msg = (
        f"a wrapped model client is used in {where} by an agent's own code: the request would not be durable"
    )
    _fail_run(
        scheduler,
        InvalidMove(
            msg,
            hint="Await the async client in the agent itself, or make the request in a tool or step.",
        ),
    )


def _fail_run(scheduler: ReplayScheduler, error: InvalidMove) -> NoReturn:
    """Fails the run with this error. Raised through the client alone, it would look like a failed connection."""

    def fail() -> None:
        if scheduler.run is not None:
            scheduler.run.fail(error)

    if asyncio._get_running_loop() is scheduler.loop:  # noqa: SLF001 - as above
        fail()
    else:
        with contextlib.suppress(RuntimeError):  # the loop is closed, and the run has ended
            scheduler.loop.call_soon_threadsafe(fail)
    raise Stopped from error


async def _served(execution: Execution, library: Any, inner: Any, exchange: Exchange, request: Any) -> Served:
    wire, body = _understood(request)

    async def send(request_body: dict[str, Any]) -> _Live:
        left_out = {"content-length", "transfer-encoding", "host"}
        outgoing = inner.build_request(
            request.method,
            request.url,
            content=canonical.encode(request_body, bytes_max=BLOB_BYTES_MAX),
            headers=[(name, value) for name, value in request.headers.items() if name not in left_out],
            extensions=request.extensions,
        )
        try:
            return _Live(library, await inner.send(outgoing, stream=True))
        except library.TransportError as error:
            raise Unreachable(type(error).__name__, str(error)) from error

    if wire.acts(body):
        return await run_server_tool_request(execution, wire, body, send, wire.ignored | exchange.ignore)
    return await exchange.serve(execution, wire, body, send)


def _understood(request: Any) -> tuple[Wire, dict[str, Any]]:
    path = str(request.url.path)
    wire = next((wire for end, wire in _WIRES.items() if path.endswith(end)), None)
    if request.method != "POST" or wire is None:
        msg = f"{request.method} {path} from an agent's own code"
        raise InvalidMove(msg, hint="Make the request in a tool or step that declares its side effect.")
    body = canonical.decode(request.content, bytes_max=BLOB_BYTES_MAX)
    if not isinstance(body, dict):
        msg = f"the body of {request.method} {path} is not an object"
        raise InvalidMove(msg)
    return wire, body


class _Live:
    """An incoming response of the HTTP library."""

    def __init__(self, library: Any, response: Any) -> None:
        self._library = library
        self._response = response
        self.status: int = response.status_code
        self.headers: Mapping[str, str] = response.headers

    async def pieces(self) -> AsyncIterator[bytes]:
        try:
            async for piece in self._response.aiter_bytes():
                yield piece
        except self._library.TransportError as error:
            raise Unreachable(type(error).__name__, str(error)) from error

    async def close(self) -> None:
        await self._response.aclose()


def _as_the_client_says(library: Any, error: Unreachable) -> Exception:
    kind = getattr(library, error.kind, None)
    is_known = isinstance(kind, type) and issubclass(kind, library.TransportError)
    exception: Exception = (kind if is_known and kind is not None else library.TransportError)(str(error))
    return exception


def _to_errors(client: Any, library: Any, failure: Failure) -> tuple[Exception, ...]:
    """The errors that the client and its HTTP library raise for this failure, for a retry policy that names their
    classes."""
    package = sys.modules[type(client).__module__.partition(".")[0]]
    request = library.Request("POST", str(getattr(client, "base_url", "http://provider")))
    try:
        if not isinstance(failure, Unreachable):
            response = library.Response(failure.status, content=failure.data, request=request)
            return (client._make_status_error_from_response(response),)  # noqa: SLF001 - both clients have it
        below = _as_the_client_says(library, failure)
        is_timeout = isinstance(below, library.TimeoutException)
        error_class = package.APITimeoutError if is_timeout else package.APIConnectionError
        return (below, error_class(request=request))
    except Exception:  # another version of the client: the failure becomes a general error
        return to_errors(failure)


_OWN_RETRY: Final = "x-stainless-retry-count"
"""The header in which a client counts its own retries."""


def _refuse_own_retry(library: Any, request: Any) -> None:
    """Rejects the retries of a client whose own retries were switched on again: its failed requests have already been
    retried, by a recorded policy."""
    if request.headers.get(_OWN_RETRY, "0") != "0":
        msg = "the client's own retries are off in an agent: hf.wrap(client, retry=hf.Retry(…)) declares them"
        raise library.ConnectError(msg, request=request)


def _refusing(library: Any, inner: Any) -> Any:
    """A blocking HTTP client over this one, for tools, which may block. The transport rejects requests of an agent's
    own code."""

    class _BlockingTransport(library.BaseTransport):  # type: ignore[misc]
        def handle_request(self, request: Any) -> Any:
            _refuse_beside_the_job()
            scheduler = JOB.get()
            if type(scheduler) is ReplayScheduler:
                msg = "a blocking model client in an agent's own code"
                error = InvalidMove(
                    msg,
                    hint="Wrap the async client, or call the blocking one in a tool or step that is a plain `def`.",
                )
                _fail_run(scheduler, error)
            return inner.send(request, stream=True)

        def close(self) -> None:
            inner.close()

    return library.Client(transport=_BlockingTransport(), timeout=None)
