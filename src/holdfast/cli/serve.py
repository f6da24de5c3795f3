"""`holdfast serve`: serves the HTTP API and the page."""

from __future__ import annotations

import os
import re
import socket
from typing import TYPE_CHECKING, Final

import click
from msgspec.structs import replace

from holdfast.cli.logs import format_option, level_option, logging_as
from holdfast.cli.options import store_option
from holdfast.cli.output import wait_for
from holdfast.errors import InvalidSetting
from holdfast.model.token_bucket import Rate, check_rate
from holdfast.registry.addresses import nats_settings
from holdfast.runtime import open_store, supervisor_link
from holdfast.store import address

if TYPE_CHECKING:
    from holdfast.server.app import Service
    from holdfast.server.settings import Rates, Settings

_RATE: Final = re.compile(r"(?P<what>\w+)=(?P<per_s>\d{1,12})(:(?P<burst>\d{1,12}))?")


@click.command()
@click.option("--host", default="127.0.0.1", show_default=True, help="Address to listen on.")
@click.option("--port", default=8080, show_default=True, help="Port to listen on; 0 takes a free one.")
@click.option("--require-key", is_flag=True, help="Require an API key on loopback, too.")
@click.option(
    "--tls-cert", type=click.Path(exists=True, dir_okay=False), help="TLS certificate with its chain."
)
@click.option(
    "--tls-key", type=click.Path(exists=True, dir_okay=False), help="Private key of the certificate."
)
@click.option(
    "--insecure", is_flag=True, help="Allow plain HTTP for other machines: keys travel unencrypted."
)
@click.option(
    "--proxy",
    "proxies",
    multiple=True,
    metavar="ADDRESS",
    help="Trust X-Forwarded-For and X-Forwarded-Proto from this address; may be repeated.",
)
@click.option(
    "--per-key",
    multiple=True,
    metavar="WHAT=N[:BURST]",
    help="Rate limit of one key, per second: requests=100, submissions=50:500, bytes=1000000.",
)
@click.option(
    "--per-namespace",
    multiple=True,
    metavar="WHAT=N[:BURST]",
    help="Rate limit of all keys of a namespace together.",
)
@click.option(
    "--allow-host",
    "hosts",
    multiple=True,
    metavar="NAME[:PORT]",
    help="Another host name by which clients reach it; may be repeated.",
)
@click.option(
    "--fd", type=int, hidden=True, help="A socket that listens already, inherited from `holdfast up`."
)
@click.option(
    "--token-fd", type=int, hidden=True, help="An open file with the token that `holdfast up` has printed."
)
@format_option
@level_option
@store_option
def serve(
    host: str,
    port: int,
    where: str,
    *,
    require_key: bool,
    tls_cert: str | None,
    tls_key: str | None,
    insecure: bool,
    proxies: tuple[str, ...],
    per_key: tuple[str, ...],
    per_namespace: tuple[str, ...],
    hosts: tuple[str, ...],
    fd: int | None,
    token_fd: int | None,
    log_format: str,
    log_level: str,
) -> None:
    """Serve the HTTP API and the page for a store. Workers are separate processes: start and stop them independently.

    On loopback without API keys, every local process may read; writing needs the token that is printed, which commands
    of the same user find by themselves. For other machines create an API key: `holdfast api-key create`.

    SIGTERM or Ctrl-C: streams end, requests in progress finish, then the server exits.

    Example: holdfast serve --store sqlite:///holdfast.db
    """
    try:
        from holdfast.server.origin_checks import is_loopback
        from holdfast.server.serving import bind_socket, run, url_of
        from holdfast.server.settings import Settings
    except ImportError as error:
        msg = "the HTTP server is not installed"
        raise InvalidSetting(msg, hint="pip install 'holdfast[server]'") from error
    elsewhere, has_tls = not is_loopback(host), _has_tls(tls_cert, tls_key)
    has_keys = require_key or (elsewhere and wait_for(_has_keys(where)))
    plain = Settings()
    settings = Settings(
        hosts=tuple(name.lower() for name in hosts),
        require_key=require_key or elsewhere,
        proxies=proxies,
        tls_cert=tls_cert,
        tls_key=tls_key,
        per_key=_rates(plain.per_key, per_key),
        per_namespace=_rates(plain.per_namespace, per_namespace),
        nats=nats_settings(os.environ),
        tends=True,
    )
    listening = (
        bind_socket(host, port, has_keys=has_keys, has_tls=has_tls, insecure=insecure)
        if fd is None
        else socket.socket(fileno=fd)
    )
    url = url_of(listening, has_tls=has_tls)
    app = _made(where, settings, token_fd)

    with logging_as(log_format, log_level):
        run(app, listening, settings, lambda: _greet(url, app.token))


def _made(where: str, settings: Settings, token_fd: int | None) -> Service:
    from holdfast.server.app import make_app
    from holdfast.server.page import StaticPage

    app = make_app(where, settings=settings, page=StaticPage())
    if token_fd is not None and app.token is not None:
        app.token = os.pread(token_fd, 1000, 0).decode()  # a process that replaces this one reads it again
    return app


def _greet(url: str, token: str | None) -> None:
    if supervisor_link.report_ready(url):
        return
    click.echo(f"listening on {url}; stop with Ctrl-C", err=True)
    if token is not None:
        click.echo(f"  {page_link(url, token)}", err=True)
    click.echo(f"  HOLDFAST_API_URL={url} holdfast jobs", err=True)


def page_link(url: str, token: str) -> str:
    """The link to open in a browser; every holder of it may write. A fragment is sent to no server, and is in no
    server's log."""
    return f"{url}/#token={token}"


def _rates(rates: Rates, options: tuple[str, ...]) -> Rates:
    """The rate limits with the typed ones; the default burst is ten seconds' worth."""
    for text in options:
        match = _RATE.fullmatch(text)
        if match is None or match["what"] not in rates.__struct_fields__:
            msg = f"{text!r} is not a rate limit"
            raise InvalidSetting(
                msg,
                hint=f"Write WHAT=N[:BURST], WHAT one of {', '.join(rates.__struct_fields__)}: requests=100.",
            )
        per_s = int(match["per_s"])
        rate = check_rate(Rate(per_s, int(match["burst"] or 10 * per_s)))
        rates = replace(rates, **{match["what"]: rate})
    return rates


def _has_tls(cert: str | None, key: str | None) -> bool:
    if (cert is None) != (key is None):
        raise InvalidSetting(
            "TLS needs a certificate and its private key", hint="Give both --tls-cert and --tls-key."
        )
    return cert is not None


async def _has_keys(where: str) -> bool:
    """Whether the store has an API key. A store that does not exist is not created."""
    place = address.parse(where)
    if place.kind == "sqlite" and not place.path.is_file():
        return False
    store = await open_store(where)
    try:
        return await store.keys.exist()
    finally:
        await store.close()
