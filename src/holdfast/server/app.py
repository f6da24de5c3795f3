"""ASGI application: guards first, then the table of endpoints, then a response or a problem. It sends nothing else.

app = make_app("sqlite:///holdfast.db")        # opens the store when the server starts, closes it when it ends
app = make_app(store, clock=…, ids=…)          # the caller closes the store
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Mapping, Sequence
from importlib.metadata import version
from typing import Any, Final

from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from holdfast.client.keys import new_token
from holdfast.engine.host_processes import HostProcesses
from holdfast.engine.log_context import add_context
from holdfast.engine.recovery import RecoveryRules
from holdfast.engine.streams import StreamWriter
from holdfast.errors import Busy, HoldfastError, Unavailable
from holdfast.model.access import AccessScope as Needs
from holdfast.model.ids import IdSource, RandomIds
from holdfast.runtime import open_store
from holdfast.server import audit, problems
from holdfast.server.access import BELIEVED_US, PASSER_BY, READS, Gate, admit, make_unauthorized
from holdfast.server.idempotency import HEADER, key_of
from holdfast.server.metrics.gauges import Gauges
from holdfast.server.metrics.loops import LoopWatch
from holdfast.server.metrics.meter import Metrics
from holdfast.server.nats_wiring import Wired, report_held_work
from holdfast.server.origin_checks import SECURITY_HEADERS, Authorise, check_visitor, request_id
from holdfast.server.page import StaticPage
from holdfast.server.problems import MEDIA_TYPE, Problem, Refusal
from holdfast.server.rate_limits import Meter
from holdfast.server.request import ApiRequest, House, read_body, read_operation, read_query
from holdfast.server.request_metrics import CODE, ROUTE, measure_responses
from holdfast.server.responses import ApiResponse, encode_json, respond
from holdfast.server.router import Endpoint, Router
from holdfast.server.settings import Settings
from holdfast.server.special_routes import ENDPOINTS
from holdfast.store.clock import Clock, SystemClock
from holdfast.store.contract import Store
from holdfast.worker.maintenance import EVERY_ROUND, Maintenance, Neighbours

_log: Final = logging.getLogger("holdfast.server")


class Service:
    """An ASGI application over one store. Make one with `make_app`.

    A caller with its `token` may write; without a token only API keys are accepted.
    """

    def __init__(
        self,
        where: str | Store,
        clock: Clock,
        ids: IdSource,
        settings: Settings,
        authorise: Authorise | None,
        scribe: StreamWriter | None,
        metrics: Metrics,
        endpoints: Sequence[Endpoint],
        page: StaticPage | None,
    ) -> None:
        self.token = None if settings.require_key or authorise is not None else new_token()
        self._where = where
        self._clock = clock
        self._ids = ids
        self._settings = settings
        self._authorise = authorise
        self._scribe = scribe
        self._metrics = metrics
        self._late = LoopWatch(metrics)
        self._router = Router(endpoints)
        self._page = page
        self._meter = Meter(clock, settings)
        self._state: House | None = None
        self._wired: Wired | None = None
        self._maintaining: asyncio.Task[None] | None = None

    def drain(self) -> None:
        """Starts draining: streams end, and the readiness check fails. Running requests are finished."""
        if self._state is not None:
            self._state.draining.set()

    # ── lifecycle ─────────────────────────────────────────────────────────────────────────────────

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._live(receive, send)
        elif scope["type"] == "http":
            await self._serve(scope, receive, measure_responses(self._metrics, scope, send))

    async def _live(self, receive: Receive, send: Send) -> None:
        assert (await receive())["type"] == "lifespan.startup"
        try:
            await self.open()
        except HoldfastError as error:
            await send({"type": "lifespan.startup.failed", "message": f"{error}  {error.hint}"})
            return
        await send({"type": "lifespan.startup.complete"})
        assert (await receive())["type"] == "lifespan.shutdown"
        await self.close()
        await send({"type": "lifespan.shutdown.complete"})

    async def open(self) -> None:
        """Opens the store; requests can be answered after that."""
        if self._state is None:
            nats = self._settings.nats
            wired = None if nats is None else Wired(self, self._clock, self._ids, self._settings, nats)
            store = await open_store(self._where) if isinstance(self._where, str) else self._where
            gate = Gate(store, store.clock, token=self.token, require_key=self._settings.require_key)
            link = None if wired is None else wired.link
            nats_up = None if link is None else lambda: link.well
            gauges = Gauges(store, self._clock, self._metrics, version("holdfast"), nats_up)
            self._state = House(
                store, store.clock, self._ids, self._settings, gate, self._metrics, gauges, self._scribe, link
            )
            self._late.start()
            self._wired = wired
            if self._settings.tends:
                self._maintain(self._state)
            if wired is not None:
                wired.start()

    def _maintain(self, state: House) -> None:
        """Starts the maintenance loop, which runs until the server closes. It sweeps in every round: leases of
        external agents are short, and no worker claims the work that they held."""
        store, neighbours = state.store, Neighbours(HostProcesses(state.store.clock.boot()))
        maintenance = Maintenance(
            *(store, store.clock, neighbours, RecoveryRules(by="the server"), random.random, self._metrics),
            registry=state.registry,
            sweep_every_us=EVERY_ROUND,
            fires_schedules=False,
        )
        self._maintaining = asyncio.create_task(maintenance.run(), name="holdfast-maintenance")
        if self._wired is not None:
            self._wired.attend(lambda: report_held_work(store, maintenance))

    async def close(self) -> None:
        """Closes the server, and the store if it was opened here."""
        self.drain()
        self._late.stop()
        maintaining, self._maintaining = self._maintaining, None
        if maintaining is not None:
            maintaining.cancel()
            await asyncio.wait([maintaining])
        wired, self._wired = self._wired, None
        if wired is not None:
            await wired.close()
        state, self._state = self._state, None
        if state is not None:
            self._metrics.registry.unregister(state.gauges)
        if state is not None and isinstance(self._where, str):
            await state.store.close()

    # ── one request ───────────────────────────────────────────────────────────────────────────────

    async def _serve(self, scope: Scope, receive: Receive, send: Send) -> None:
        headers = Headers(scope=scope)
        req_id = request_id(headers) or self._ids.new("req")
        response_started = False

        async def signed(message: Message) -> None:
            nonlocal response_started
            if message["type"] == "http.response.start":
                response_started = True
                _sign(MutableHeaders(scope=message), req_id)
            await send(message)

        with add_context(request_id=req_id):
            try:
                answer = await self._answer(scope, headers, receive, req_id)
                await answer(scope, receive, signed)
            except Refusal as refusal:
                scope[CODE] = refusal.error.code
                await self._refuse(refusal, req_id)(scope, receive, signed)
            except HoldfastError as error:
                scope[CODE] = error.code
                status = problems.status_of(error)
                if status >= 500:
                    _log.warning("request %s: %s: %s", req_id, error.code, error, exc_info=status == 500)
                if not response_started:
                    await self._refuse(Refusal(status, error), req_id)(scope, receive, signed)
            except Exception:
                # An unexpected error: the log has all of it, and the caller gets the request id.
                _log.exception("request %s failed with an unexpected error", req_id)
                scope[CODE] = HoldfastError.code
                if not response_started:
                    await _problem(problems.make_internal_error(req_id), {})(scope, receive, signed)

    async def _answer(self, scope: Scope, headers: Headers, receive: Receive, req_id: str) -> ASGIApp:
        check_visitor(scope, headers, self._settings)
        page = self._page
        if page is not None and (route := page.route(scope["method"], scope["raw_path"])):
            scope[ROUTE] = route
            return page.answer(scope["raw_path"], headers.get("if-none-match"))
        state = self._state
        if state is None:
            raise Unavailable("the server is starting or shutting down")
        request = Request(scope, receive)
        authorise: Authorise = state.gate if self._authorise is None else self._authorise
        try:
            endpoint, path = self._router.find(scope["method"], scope["raw_path"])
        except (HoldfastError, Refusal):
            await authorise(request)  # an unknown path is reported only to authenticated callers
            raise
        scope[ROUTE] = endpoint.path
        public = endpoint.scope is Needs.PUBLIC
        principal = PASSER_BY if public else await authorise(request)
        started_at = self._clock.tick_us()
        try:
            if not public:
                self._meter.admit(principal, endpoint)
            admit(principal, endpoint, path)
            if endpoint.keyed:
                key_of(headers.get(HEADER))  # an invalid key is rejected even where it has no effect
            operation = endpoint.operation

            def count(size: int) -> None:
                self._meter.read(principal, size)

            if operation is not None:
                query: Any = None
                body = await read_operation(request, operation, path, self._settings, count)
            else:
                query = read_query(request, endpoint.query)
                body = (
                    None
                    if endpoint.body is None
                    else await read_body(request, endpoint.body, self._settings, count)
                )
            api_request = ApiRequest(
                house=state,
                principal=principal,
                request=request,
                path=path,
                query=query,
                body=body,
                request_id=req_id,
            )
            answer = await endpoint.handle(api_request)
        except (HoldfastError, Refusal) as rejection:
            await audit.record_refusal(state, principal, endpoint, path, req_id, rejection)
            raise
        late = self._clock.tick_us() - started_at >= BELIEVED_US
        if late and request.method in READS and not await state.gate.still(principal):
            raise make_unauthorized()
        return await self._given(api_request, endpoint, answer, headers)

    async def _given(
        self, api_request: ApiRequest, endpoint: Endpoint, answer: ApiResponse | ASGIApp, headers: Headers
    ) -> ASGIApp:
        if not isinstance(answer, ApiResponse):
            return answer
        if endpoint.audited:
            await audit.record_act(api_request, endpoint, answer)
        return respond(answer, headers.get("if-none-match"))

    def _refuse(self, refusal: Refusal, req_id: str) -> Response:
        problem = problems.make_problem(refusal.error, refusal.status, req_id, refusal.pointer)
        headers = refusal.headers
        if refusal.status in {429, 503}:
            error = refusal.error
            after_s = error.retry_after_s if isinstance(error, Busy) else problems.RETRY_AFTER_S
            headers = {"Retry-After": str(after_s)} | headers
        return _problem(problem, headers)


def make_app(
    where: str | Store,
    *,
    clock: Clock | None = None,
    ids: IdSource | None = None,
    settings: Settings | None = None,
    authorise: Authorise | None = None,
    scribe: StreamWriter | None = None,
    metrics: Metrics | None = None,
    endpoints: Sequence[Endpoint] = ENDPOINTS,
    page: StaticPage | None = None,
) -> Service:
    """An application over the store at this address, or over an open one, which the caller closes.

    API keys and the application's `token` decide who may send requests (`server.access`), or `authorise` does. With a
    `page`, the server also serves the web page.
    """
    return Service(
        where,
        SystemClock() if clock is None else clock,
        RandomIds() if ids is None else ids,
        Settings() if settings is None else settings,
        authorise,
        scribe,
        Metrics() if metrics is None else metrics,
        endpoints,
        page,
    )


def _problem(problem: Problem, headers: Mapping[str, str]) -> Response:
    return Response(
        encode_json(problem), status_code=problem.status, headers=dict(headers), media_type=MEDIA_TYPE
    )


def _sign(headers: MutableHeaders, req_id: str) -> None:
    headers["X-Request-ID"] = req_id
    headers.setdefault("Cache-Control", "no-store")
    for name, value in SECURITY_HEADERS.items():
        headers.setdefault(name, value)
