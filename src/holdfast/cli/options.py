"""Options that many commands share."""

from __future__ import annotations

import getpass
import os

import click

from holdfast.store.address import DEFAULT

store_option = click.option(
    "--store",
    "where",
    envvar="HOLDFAST_STORE",
    default=DEFAULT,
    show_default=True,
    show_envvar=True,
    help="Address of the store: sqlite:///file.db or postgresql://user@host/database.",
)

app_store_option = click.option(
    "--store",
    "where",
    envvar="HOLDFAST_STORE",
    default=DEFAULT,
    show_envvar=True,
    help="Address of the store: sqlite:///file.db or postgresql://user@host/database."
    f"  [default: the store that the App declares, else {DEFAULT}]",
)

by_option = click.option(
    "--by",
    default=lambda: os.environ.get("HOLDFAST_BY") or _user(),
    help="Your name, for the journal.  [env var: HOLDFAST_BY; default: your login]",
)

operation_option = click.option(
    "--operation-id",
    default=None,
    metavar="ID",
    help="Idempotency key: the same command with the same id is applied once.",
)

json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON instead of a table.")


def _user() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # a container without a password file
        return "unknown user"
