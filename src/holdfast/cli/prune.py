"""`holdfast db prune`: what is over and old is let go."""

from __future__ import annotations

import click

from holdfast.cli.open_store import existing
from holdfast.cli.options import json_option, store_option
from holdfast.cli.output import plain, show, wait_for
from holdfast.engine.retention import RetentionReport
from holdfast.engine.retention import prune as prune_store
from holdfast.model.retention import How, RetentionPolicy
from holdfast.model.time import parse_duration


@click.command()
@click.option("--older-than", required=True, metavar="TIME", help="How long a job has to be over: 30d, 12h.")
@click.option(
    "--erase-bodies",
    "how",
    flag_value=How.ERASE.value,
    default=How.ERASE.value,
    help="Keep the jobs, their input and output; erase what their steps and letters said.  [default]",
)
@click.option("--remove", "how", flag_value=How.REMOVE.value, help="Remove the jobs; tombstones stay.")
@click.option("--dry-run", is_flag=True, help="Count, and change nothing.")
@click.option("--yes", is_flag=True, help="Do not ask.")
@store_option
@json_option
def prune(older_than: str, how: str, where: str, *, dry_run: bool, yes: bool, as_json: bool) -> None:
    """Erase or remove jobs that have been over for a while, and blobs that nothing refers to.

    Kept, however old: jobs that are not over, children of parents that are not, jobs with a call of which nobody knows
    what came. An erased job still verifies; it can no longer be replayed. Parents go after their children, so a dry run
    of --remove may name fewer than will go.

    Example: holdfast db prune --older-than 30d --dry-run
    """
    policy = RetentionPolicy(older_than_us=parse_duration(older_than), how=How(how))
    if not (yes or dry_run):
        what = "Erase the bodies of" if policy.how is How.ERASE else "Remove"
        click.confirm(f"{what} jobs over for {plain(older_than)} in {plain(where)}?", abort=True, err=True)

    async def work() -> RetentionReport:
        store = await existing(where)
        try:
            return await prune_store(store, policy, dry_run=dry_run)
        finally:
            await store.close()

    report = wait_for(work())
    if as_json:
        show(report, as_json=True)
        return
    done = "would be " if dry_run else ""
    done += "erased" if policy.how is How.ERASE else "removed"
    click.echo(
        f"{report.jobs} jobs {done}: {report.events} events, {report.size} bytes; "
        f"{report.blobs} blobs, {report.blob_bytes} bytes"
    )
    for why, count in report.kept.items():
        click.echo(f"{count} kept: {why}", err=True)
