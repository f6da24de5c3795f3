"""HTTP server: uvicorn, bound to an allowed address, and drained before it ends."""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import Callable
from typing import Final

import uvicorn

from holdfast.client.local_token import remove_token, write_token
from holdfast.errors import InvalidSetting
from holdfast.server.app import Service
from holdfast.server.header_limits import Bounded
from holdfast.server.origin_checks import check_bind, is_loopback
from holdfast.server.settings import DEFAULT_HOST, DEFAULT_PORT, Settings

_log: Final = logging.getLogger("holdfast.server")


class Server(uvicorn.Server):
    """A server that ends its streams before it waits for them, and reports when it is up.

    While it runs on loopback, the token of this start is stored where the local commands of its user look for it.
    """

    def __init__(self, service: Service, settings: Settings, up: Callable[[], None] | None = None) -> None:
        self._service = service
        self._up = up
        self._written: list[tuple[str, str]] = []
        super().__init__(
            uvicorn.Config(
                service,
                http=Bounded,
                ws="none",
                loop="auto",
                lifespan="on",
                access_log=False,
                log_config=None,  # the process configures logging
                log_level="warning",
                server_header=False,
                date_header=True,
                # Only the configured proxies may set the client address and scheme of a request.
                proxy_headers=bool(settings.proxies),
                forwarded_allow_ips=list(settings.proxies),
                ssl_certfile=settings.tls_cert,
                ssl_keyfile=settings.tls_key,
                timeout_graceful_shutdown=int(settings.drain_timeout_s),
            )
        )

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        if not self.started:
            return
        trouble = self._leave_token(sockets or [])
        if self._up is not None:
            self._up()
        if trouble is not None:
            _log.warning("the token could not be stored where local commands look for it: %s", trouble)

    def _leave_token(self, sockets: list[socket.socket]) -> Exception | None:
        """Stores the token where local commands look for it; returns the error if that fails."""
        token = self._service.token
        for listening in sockets:
            if token is None or not is_loopback(listening.getsockname()[0]):
                continue
            url = url_of(listening)
            try:
                write_token(url, token)
            except (OSError, RuntimeError) as error:  # a folder that cannot be written, or no home directory
                return error
            self._written.append((url, token))
        return None

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        self._service.drain()
        try:
            await super().shutdown(sockets)
        finally:
            for url, token in self._written:
                remove_token(url, token)


def run(service: Service, listening: socket.socket, settings: Settings, up: Callable[[], None]) -> None:
    """Serves until a signal. Raises if the store cannot be opened."""
    server = Server(service, settings, up)

    async def serve() -> None:
        await service.open()
        try:
            await server.serve(sockets=[listening])
        finally:
            await service.close()

    with listening, asyncio.Runner(loop_factory=server.config.get_loop_factory()) as runner:
        runner.run(serve())


def bind_socket(
    host: str = DEFAULT_HOST,
    port: int = DEFAULT_PORT,
    *,
    has_keys: bool = False,
    has_tls: bool = False,
    insecure: bool = False,
) -> socket.socket:
    """A listening socket, if the server may listen there; port 0 is any free port."""
    check_bind(host, has_keys=has_keys, has_tls=has_tls, insecure=insecure)
    try:
        family, _, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        listening = socket.socket(family, socket.SOCK_STREAM)
        try:
            listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listening.bind(address)
        except OSError:
            listening.close()
            raise
    except OSError as error:
        msg = f"cannot listen on {host}:{port}: {error.strerror or error}"
        raise InvalidSetting(
            msg, hint="Choose another port with --port, or stop the process that uses this one."
        ) from None
    return listening


def url_of(listening: socket.socket, *, has_tls: bool = False) -> str:
    """The URL of the server."""
    host, port = listening.getsockname()[:2]
    scheme = "https" if has_tls else "http"
    return f"{scheme}://[{host}]:{port}" if ":" in host else f"{scheme}://{host}:{port}"
