"""Options that many commands share."""

from __future__ import annotations

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

json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON instead of a table.")
