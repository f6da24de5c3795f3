"""`holdfast serve`: the HTTP API, in a process of its own."""

from __future__ import annotations

import click

from holdfast.cli.logs import format_option, level_option, logging_as
from holdfast.cli.options import store_option
from holdfast.errors import InvalidSetting


@click.command()
@click.option("--host", default="127.0.0.1", show_default=True, help="Where to listen.")
@click.option("--port", default=8080, show_default=True, help="0 takes one that is free.")
@click.option(
    "--insecure", is_flag=True, help="Listen where others can reach it, and ask nobody who they are."
)
@click.option(
    "--allow-host", "hosts", multiple=True, metavar="NAME[:PORT]", help="Another name that it is reached by."
)
@format_option
@level_option
@store_option
def serve(
    host: str,
    port: int,
    where: str,
    *,
    insecure: bool,
    hosts: tuple[str, ...],
    log_format: str,
    log_level: str,
) -> None:
    """Answer over HTTP for the store. Workers are processes of their own, and neither notices the other restart.

    SIGTERM or Ctrl-C: streams end, requests that were begun are finished, then it ends.

    Example: holdfast serve --store sqlite:///holdfast.db
    """
    try:
        from holdfast.service.app import make_app
        from holdfast.service.serving import bound, run, url_of
        from holdfast.service.settings import Settings
    except ImportError as error:
        msg = "the HTTP server is not installed"
        raise InvalidSetting(msg, hint="pip install 'holdfast[server]'") from error
    settings = Settings(hosts=tuple(name.lower() for name in hosts))
    listening = bound(host, port, insecure=insecure)
    url = url_of(listening)

    def up() -> None:
        click.echo(f"listening on {url}; stop with Ctrl-C", err=True)
        click.echo(f"  HOLDFAST_API_URL={url} holdfast jobs", err=True)

    with logging_as(log_format, log_level):
        run(make_app(where, settings=settings), listening, settings, up)
