"""`hf.wrap`: people's own model clients, with every request in the journal.

A wrapped client is a copy of the client with another way to its provider. Inside an agent's own code a request is a
durable step; inside a tool or step it is that call's own business; outside a job it is a request like any other.

Both clients are built on one HTTP library, under its old or its new name. It is found through the client, and nothing
of it is imported here.
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
"""What a client learns of an answer's headers. Its length and encoding were the provider's, and are ours now."""

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
    """The same client, whose requests inside an agent are durable: recorded, found again, streamed to whoever watches.

    retry: how often a provider that is busy or away is asked, and which errors of the client or of its HTTP library are
    retried; each failed attempt is recorded, and while the wait is long nobody holds the job. The client's own retries
    are off. timeout: how long one attempt may take, to the whole answer, or to the first bytes of a streamed one.
    fallback: for a model that stays away, the one to ask instead. limits: what this process asks of one model at most.
    prices: corrections of and additions to the table of prices, by the model's name.
    cache: answers that other jobs had to the very same question may be given again; off unless it is asked for.
    ignore: fields of a request that do not change the question, beside those that are known. A request that differs
    from the recorded one in nothing else is the recorded one.
    on_repurchase: what happens when a recorded answer would be bought again because the request differs: "warn" says
    so in the journal and in the log, "park" holds the job for a person before anything is sent.
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
    if asked := sorted(
        {"model", "messages", "input", "system", "instructions", "tools"}.intersection(ignore)
    ):
        msg = f"ignore= names {', '.join(asked)}, which are part of the question itself"
        raise InvalidSetting(msg, hint="Name only fields that do not change the answer, such as a trace id.")
    return frozenset(ignore)


def _check_on_repurchase(on_repurchase: str) -> str:
    if on_repurchase not in {"warn", "park"}:
        msg = f"on_repurchase={on_repurchase!r} is not known"
        raise InvalidSetting(msg, hint='Say on_repurchase="warn" or "park".')
    return on_repurchase


def _connection_of(client: object) -> Any:
    """The HTTP client inside a model client, whose `copy` takes another one; None, if it is not such a client.

    The object's own attributes count, not those that it hands through from a client inside: a copy of that one would be
    the bare client, without what was built around it.
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
"""Where libraries that are built on a model client keep it."""


def _what_to_wrap(client: object) -> str:
    """What to do instead: the client inside is wrapped first, if there is one to be seen."""
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
    """The HTTP library that a client's connection is made with."""
    for base in type(inner).__mro__:
        name = base.__module__.partition(".")[0]
        if name in {"httpx", "httpx2"}:
            return sys.modules[name]
    return None


def _durable(library: Any, inner: Any, exchange: Exchange) -> Any:
    """A connection over this one that keeps what an agent's own code asks."""

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
            drive = asking()
            if drive is None:
                return await inner.send(request, stream=True)
            _refuse_own_retry(library, request)
            try:
                served = await _served(drive, library, inner, exchange, request)
            except Unreachable as error:
                raise _as_the_client_says(library, error) from error
            except Misuse as error:
                # The client would take it for a connection that failed, and the code could not tell.
                drive.fail(error)
                raise Stopped from error
            headers: dict[str, str] = {
                name: served.headers[name] for name in _SHOWN if name in served.headers
            }
            if served.status >= BAD:
                headers["x-should-retry"] = "false"  # it has been retried, by a policy that is on record
            return library.Response(
                served.status, headers=headers, stream=Answered(served), extensions={STEP: served.step_key}
            )

        async def aclose(self) -> None:
            await inner.aclose()

    return library.AsyncClient(transport=_JobTransport(), timeout=None)


def asking() -> Execution | None:
    """The run whose own code asks here. A tool's code asks for itself, and so does everybody else."""
    _refuse_beside_the_job()
    place = task_scopes.find_task_scope()
    return None if place is None or place.inside is not None else context.find_drive()


def _refuse_beside_the_job() -> None:
    """Fails the run, if job code makes a request in a thread or on an event loop that is not the job's: there it has no
    place in the journal, and every replay would buy it again."""
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
    """Ends the run with this error. A client would take an error for a connection that failed, and say no more."""

    def fail() -> None:
        if scheduler.run is not None:
            scheduler.run.fail(error)

    if asyncio._get_running_loop() is scheduler.loop:  # noqa: SLF001 - as above
        fail()
    else:
        with contextlib.suppress(RuntimeError):  # the loop is closed, and the run over
            scheduler.loop.call_soon_threadsafe(fail)
    raise Stopped from error


async def _served(drive: Execution, library: Any, inner: Any, exchange: Exchange, request: Any) -> Served:
    wire, body = _understood(request)

    async def send(asked: dict[str, Any]) -> _Live:
        left_out = {"content-length", "transfer-encoding", "host"}
        again = inner.build_request(
            request.method,
            request.url,
            content=canonical.encode(asked, bytes_max=BLOB_BYTES_MAX),
            headers=[(name, value) for name, value in request.headers.items() if name not in left_out],
            extensions=request.extensions,
        )
        try:
            return _Live(library, await inner.send(again, stream=True))
        except library.TransportError as error:
            raise Unreachable(type(error).__name__, str(error)) from error

    if wire.acts(body):
        return await run_server_tool_request(drive, wire, body, send, wire.ignored | exchange.ignore)
    return await exchange.serve(drive, wire, body, send)


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
    """A response of the HTTP library, as it comes in."""

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
    known = isinstance(kind, type) and issubclass(kind, library.TransportError)
    said: Exception = (kind if known and kind is not None else library.TransportError)(str(error))
    return said


def _to_errors(client: Any, library: Any, failure: Failure) -> tuple[Exception, ...]:
    """The errors that the client and its HTTP library raise for this, for a retry policy that names their classes."""
    package = sys.modules[type(client).__module__.partition(".")[0]]
    request = library.Request("POST", str(getattr(client, "base_url", "http://provider")))
    try:
        if not isinstance(failure, Unreachable):
            response = library.Response(failure.status, content=failure.data, request=request)
            return (client._make_status_error_from_response(response),)  # noqa: SLF001 - both clients have it
        below = _as_the_client_says(library, failure)
        is_timeout = isinstance(below, library.TimeoutException)
        made = package.APITimeoutError if is_timeout else package.APIConnectionError
        return (below, made(request=request))
    except Exception:  # another version of the client: the failure is an error all the same
        return to_errors(failure)


_OWN_RETRY: Final = "x-stainless-retry-count"
"""The header in which a client counts its own retries."""


def _refuse_own_retry(library: Any, request: Any) -> None:
    """A client that was given retries of its own again asks no more: what it repeats has been retried on record."""
    if request.headers.get(_OWN_RETRY, "0") != "0":
        msg = "the client's own retries are off in an agent: hf.wrap(client, retry=hf.Retry(…)) declares them"
        raise library.ConnectError(msg, request=request)


def _refusing(library: Any, inner: Any) -> Any:
    """A blocking connection over this one: for tools, which may block. An agent's own code may not."""

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
