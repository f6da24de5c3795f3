"""`holdfast audit`: the audit log, and the verification of its hash chain."""

from __future__ import annotations

import click

from holdfast.cli.api_key import namespace_option
from holdfast.cli.open_store import existing
from holdfast.cli.options import json_option, store_option
from holdfast.cli.output import one_line, table, to_json, wait_for
from holdfast.client.audit_log import Audited, verify_audit_log
from holdfast.model.audit import read_act
from holdfast.model.time import to_iso


@click.command()
@click.option(
    "--last", default=50, show_default=True, type=click.IntRange(1), help="Number of newest entries to show."
)
@namespace_option
@store_option
@json_option
def audit(last: int, namespace: str, where: str, *, as_json: bool) -> None:
    """Show the audit log, and verify its hash chain from the first entry; exit status 1 if it is broken.

    Example: holdfast audit --last 20
    """

    async def look() -> Audited:
        store = await existing(where)
        try:
            return await verify_audit_log(store, namespace, last=last)
        finally:
            await store.close()

    report = wait_for(look())
    lines = [read_act(line) for line in report.last]
    for line in lines if as_json else ():
        click.echo(to_json(line))
    if lines and not as_json:
        rows = [
            (line.seq, to_iso(line.at), line.who, line.what, one_line(line.object), one_line(line.reason))
            for line in lines
        ]
        table(("entry", "time", "who", "action", "object", "reason"), rows, as_json=False)
    for fault in report.faults:
        click.secho(fault, fg="red", err=True)
    if report.faults:
        click.echo("the hash chain is broken: the audit log was changed after it was written", err=True)
        raise click.exceptions.Exit(1)
    click.echo(f"{report.count} entries, hash chain intact, head {report.head.hash.hex()[:16]}", err=True)
