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
    help="Where facts are kept: sqlite:///file.db or postgresql://user@host/database.",
)

app_store_option = click.option(
    "--store",
    "where",
    envvar="HOLDFAST_STORE",
    default=DEFAULT,
    show_envvar=True,
    help="Where facts are kept: sqlite:///file.db or postgresql://user@host/database."
    f"  [default: as the App declares, {DEFAULT} if it does not]",
)

by_option = click.option(
    "--by",
    default=lambda: os.environ.get("HOLDFAST_BY") or _user(),
    help="Who says it; written into the journal.  [env var: HOLDFAST_BY; default: your login]",
)

operation_option = click.option(
    "--operation-id",
    default=None,
    metavar="ID",
    help="Makes the command safe to repeat: the same id again is the same word.",
)

json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON instead of a table.")


def _user() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # a container without a password file
        return "somebody"
