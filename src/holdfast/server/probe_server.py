"""Probe server: a worker's own port with its health and metrics. It shows nothing about jobs, and accepts no writes.

It listens on loopback by default. It runs in the worker's event loop: a blocked loop does not answer, and that is
what a probe has to find out.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator

from starlette.requests import Request

from holdfast.model.access import Role
from holdfast.server.app import Service, make_app
from holdfast.server.metrics.meter import Metrics
from holdfast.server.origin_checks import Principal
from holdfast.server.serving import Server, bind_socket, url_of
from holdfast.server.settings import Settings
from holdfast.server.special_routes import WORKER_ENDPOINTS
from holdfast.store.contract import Store


class SideDoorServer(Server):
    """Leaves signals to the worker: this server ends when `should_exit` is set."""

    @contextlib.contextmanager
    def capture_signals(self):  # type: ignore[no-untyped-def]  # noqa: ANN201 - uvicorn's own has no types either
        yield


async def _anybody(_request: Request) -> Principal:
    return Principal("somebody", roles=(Role.VIEWER,))


@contextlib.asynccontextmanager
async def side_door(
    store: Store, metrics: Metrics, host: str, port: int, hosts: tuple[str, ...] = ()
) -> AsyncIterator[tuple[str, Service]]:
    """The address of the probe server, and its application."""
    settings = Settings(hosts=hosts, drain_timeout_s=1)
    listening = bind_socket(host, port, insecure=True)  # it shows no job data, and accepts no writes
    service = make_app(
        store, settings=settings, metrics=metrics, endpoints=WORKER_ENDPOINTS, authorise=_anybody
    )
    up = asyncio.Event()
    server = SideDoorServer(service, settings, up.set)
    serving = asyncio.create_task(server.serve(sockets=[listening]), name="holdfast-side-door")
    try:
        await up.wait()
        yield url_of(listening), service
    finally:
        server.should_exit = True
        await serving
        listening.close()
