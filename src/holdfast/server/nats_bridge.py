"""The same API over NATS: one message asks, one message answers.

    subject   holdfast.api
    request   {"method": "POST", "path": "/api/work/claim", "headers": {"authorization": "Bearer …"}, "body": {…}}
    reply     {"status": 200, "headers": {"content-type": …}, "body": …}

A request goes through the very application that answers over HTTP, in this process: keys, scopes, rates, bounds and
problem documents are the same. Servers share the subject, and one of them gets each message. Whatever a message says,
it gets an answer; what cannot be asked here (streams, exports, keys) is asked over HTTP.

A page in a browser cannot send such a message, so there is no `Host` or `Origin` of somebody else to fear: none is
taken from it. But whoever may speak to this NATS may be on another machine. So where NATS is not on loopback, nothing
is answered without a key. And an answer goes to an inbox alone: else a message could have us write where only we may.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import unquote

import msgspec
from nats import errors
from nats.aio.client import Client
from nats.aio.msg import Msg
from nats.aio.subscription import Subscription
from starlette.types import ASGIApp, Message

from holdfast.errors import Busy, HoldfastError, InvalidPayload, NotAllowed, TooLarge, Unavailable
from holdfast.model import canonical
from holdfast.model.ids import IdSource
from holdfast.model.limits import KIB
from holdfast.registry.connection import NatsConnection, end_tasks
from holdfast.server import problems
from holdfast.server.access import make_unauthorized
from holdfast.server.origin_checks import SECURITY_HEADERS
from holdfast.server.problems import Refusal
from holdfast.server.responses import encode_json
from holdfast.server.settings import Settings

SUBJECT: Final = "holdfast.api"
GROUP: Final = "holdfast"
INBOX: Final = "_INBOX"
ROOTS: Final = ("/api/work", "/api/agents", "/api/stats", "/api/dead-letters")
PASSED_ON: Final = frozenset({"authorization", "idempotency-key", "if-none-match", "x-request-id"})
UNTOLD: Final = frozenset({"content-length", *(name.lower() for name in SECURITY_HEADERS)})
AT_ONCE_MAX: Final = 256
ANSWER_S: Final = 60.0
ENVELOPE_BYTES: Final = 64 * KIB

log = logging.getLogger("holdfast.nats")


class BridgedRequest(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a message asks."""

    method: str
    path: str
    headers: dict[str, str] = {}
    body: Any = msgspec.UNSET


class BridgedAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """What it is told. `body` is JSON, or text where the answer is not."""

    status: int
    headers: dict[str, str]
    body: Any = None


class Bridge:
    """Answers over this connection with this application. Make it before the connection is started.

    `anybody` may ask without a key what the application lets anybody ask.
    """

    def __init__(
        self, app: ASGIApp, connection: NatsConnection, ids: IdSource, settings: Settings, *, anybody: bool
    ) -> None:
        self._app = app
        self._ids = ids
        self._settings = settings
        self._anybody = anybody
        self._answering: set[asyncio.Task[None]] = set()
        self._subscription: Subscription | None = None
        connection.attend("api", self._attend)

    async def close(self) -> None:
        """No new message is taken; what was begun is finished, or cut off when it takes too long."""
        subscription, self._subscription = self._subscription, None
        if subscription is not None:
            try:
                await subscription.unsubscribe()
            except errors.Error as error:
                log.debug("the subject is not given up: %s", error)
        if self._answering:
            await asyncio.wait(self._answering, timeout=self._settings.drain_timeout_s)
        await end_tasks(list(self._answering))

    # ── messages ──────────────────────────────────────────────────────────────────────────────────

    async def _attend(self, client: Client) -> None:
        async def heard(message: Msg) -> None:
            self._hear(client, message)

        self._subscription = await client.subscribe(SUBJECT, queue=GROUP, cb=heard)
        await client.flush(timeout=1)
        log.info("answering on %s", SUBJECT)

    def _hear(self, client: Client, message: Msg) -> None:
        if not message.reply.startswith(INBOX):
            log.debug("a message on %s without an inbox for its answer", SUBJECT)
            return
        task = asyncio.get_running_loop().create_task(self._reply(client, message))
        self._answering.add(task)
        task.add_done_callback(self._answering.discard)

    async def _reply(self, client: Client, message: Msg) -> None:
        named = self._ids.new("req")
        try:
            if len(self._answering) > AT_ONCE_MAX:
                raise Busy(f"{AT_ONCE_MAX} requests over NATS are being answered", retry_after_s=1)
            answer = await self._answered(message.data)
        except (HoldfastError, Refusal) as refused:
            answer = _refusal(refused, named)
        except Exception:  # nobody foresaw it: the log has all of it, and the bridge stands
            log.exception("request %s over NATS failed with an unexpected error", named)
            answer = _problem(problems.make_internal_error(named))
        data = encode_json(answer)
        if len(data) > client.max_payload:
            msg = f"the answer has {len(data):,} bytes, and NATS takes {client.max_payload:,}"
            hint = "What was asked was done. Read it over HTTP, or ask for less of it."
            data = encode_json(_refusal(TooLarge(msg, hint=hint), named))
        try:
            await client.publish(message.reply, data)
        except (errors.Error, OSError) as error:
            log.warning("the response to request %s was lost: %s", named, error)

    async def _answered(self, data: bytes) -> BridgedAnswer:
        asked = _read(data, self._settings.body_bytes_max + ENVELOPE_BYTES)
        headers = {name.lower(): value for name, value in asked.headers.items()}
        if not self._anybody and "authorization" not in headers:
            raise make_unauthorized()
        body = b"" if asked.body is msgspec.UNSET else encode_json(asked.body)
        heard = _Heard(self._settings.body_bytes_max + ENVELOPE_BYTES)
        try:
            async with asyncio.timeout(ANSWER_S):
                await self._app(_scope(asked, headers), _once(body), heard)
        except TimeoutError:
            raise Unavailable(f"no answer within {ANSWER_S:g} s") from None
        return heard.answer()


# ── a message as a request ────────────────────────────────────────────────────────────────────────


def _read(data: bytes, bytes_max: int) -> BridgedRequest:
    try:
        asked = msgspec.convert(canonical.decode(data, bytes_max=bytes_max), BridgedRequest)
    except TooLarge:
        raise
    except InvalidPayload as error:
        raise Refusal(400, error) from None
    except msgspec.ValidationError as error:
        hint = 'Send {"method": "GET", "path": "/api/stats", "headers": {…}, "body": …}.'
        raise Refusal(400, InvalidPayload(f"not a request: {error}", hint=hint)) from None
    path = asked.path.partition("?")[0]
    if not any(path == root or path.startswith(root + "/") for root in ROOTS):
        hint = f"Over NATS there is {', '.join(ROOTS)}; the rest is there over HTTP."
        raise Refusal(404, NotAllowed("there is no endpoint at this path over NATS", hint=hint))
    for text in (asked.path, asked.method, *asked.headers, *asked.headers.values()):
        if not text.isascii() or not text.isprintable():
            raise Refusal(
                400,
                InvalidPayload(
                    "method, path and headers are printable ASCII", hint="Percent-encode the path."
                ),
            )
    return asked


def _scope(asked: BridgedRequest, headers: Mapping[str, str]) -> dict[str, Any]:
    path, _, query = asked.path.partition("?")
    sent = [(name.encode(), value.encode()) for name, value in headers.items() if name in PASSED_ON]
    return {
        "type": "http",
        "asgi": {"version": "3.0", "spec_version": "2.3"},
        "http_version": "1.1",
        "method": asked.method.upper(),
        "scheme": "http",
        "path": unquote(path),
        "raw_path": path.encode(),
        "query_string": query.encode(),
        "root_path": "",
        # It came to this very process, by no name that somebody chose.
        "headers": [(b"host", b"localhost"), (b"content-type", b"application/json"), *sent],
        "server": ("localhost", 80),
        "client": None,
    }


def _once(body: bytes) -> Any:
    """The body, and after that nothing more: a message does not hang up."""
    sent = False

    async def receive() -> Message:
        nonlocal sent
        if sent:
            await asyncio.get_running_loop().create_future()
        sent = True
        return {"type": "http.request", "body": body, "more_body": False}

    return receive


class _Heard:
    """What the application answers."""

    def __init__(self, bytes_max: int) -> None:
        self._bytes_max = bytes_max
        self._status = 500
        self._headers: dict[str, str] = {}
        self._body = bytearray()

    async def __call__(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self._status = message["status"]
            self._headers = {
                name.decode("latin-1").lower(): value.decode("latin-1") for name, value in message["headers"]
            }
            if self._kind == "text/event-stream":
                raise Refusal(404, NotAllowed("there are no streams over NATS", hint="Read it over HTTP."))
        elif message["type"] == "http.response.body":
            self._body += message.get("body", b"")
            if len(self._body) > self._bytes_max:
                raise TooLarge(f"the answer is larger than {self._bytes_max:,} bytes", hint="Ask for less.")

    @property
    def _kind(self) -> str:
        return self._headers.get("content-type", "").partition(";")[0]

    def answer(self) -> BridgedAnswer:
        body: Any = None
        if self._body:
            told = bytes(self._body)
            body = msgspec.Raw(told) if self._kind.endswith("json") else told.decode(errors="replace")
        headers = {name: value for name, value in self._headers.items() if name not in UNTOLD}
        return BridgedAnswer(status=self._status, headers=headers, body=body)


def _refusal(refused: HoldfastError | Refusal, named: str) -> BridgedAnswer:
    if isinstance(refused, HoldfastError):
        refused = Refusal(problems.status_of(refused), refused)
    headers = dict(refused.headers)
    if refused.status in {429, 503}:
        headers["retry-after"] = str(problems.RETRY_AFTER_S)
    return _problem(problems.make_problem(refused.error, refused.status, named, refused.pointer), headers)


def _problem(problem: problems.Problem, headers: Mapping[str, str] | None = None) -> BridgedAnswer:
    told = {name.lower(): value for name, value in (headers or {}).items()}
    told |= {"content-type": problems.MEDIA_TYPE, "x-request-id": problem.request_id}
    return BridgedAnswer(status=problem.status, headers=told, body=msgspec.to_builtins(problem))
