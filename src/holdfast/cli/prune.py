"""`holdfast db prune`: retention, on request."""

from __future__ import annotations

import click

from holdfast.cli.open_store import existing
from holdfast.cli.options import json_option, store_option
from holdfast.cli.output import plain, show, wait_for
from holdfast.engine.retention import RetentionReport
from holdfast.engine.retention import prune as prune_store
from holdfast.model.retention import PruneMode, RetentionPolicy
from holdfast.model.time import parse_duration


@click.command()
@click.option(
    "--older-than", required=True, metavar="TIME", help="Only jobs that ended longer ago: 30d, 12h."
)
@click.option(
    "--erase-bodies",
    "how",
    flag_value=PruneMode.ERASE.value,
    default=PruneMode.ERASE.value,
    help="Keep jobs, input and output; erase the contents of steps and messages.  [default]",
)
@click.option("--remove", "how", flag_value=PruneMode.REMOVE.value, help="Remove the jobs; tombstones stay.")
@click.option("--dry-run", is_flag=True, help="Count only; change nothing.")
@click.option("--yes", is_flag=True, help="Do not ask for confirmation.")
@store_option
@json_option
def prune(older_than: str, how: str, where: str, *, dry_run: bool, yes: bool, as_json: bool) -> None:
    """Erase or remove jobs that ended some time ago, and blobs without references.

    Always kept: jobs that have not ended, children of parents that have not ended, jobs with a call whose outcome is
    unknown. An erased job still verifies, and can no longer be replayed. Parents are removed after their children, so a
    dry run of --remove may count fewer jobs than are removed.

    Example: holdfast db prune --older-than 30d --dry-run
    """
    policy = RetentionPolicy(older_than_us=parse_duration(older_than), how=PruneMode(how))
    if not (yes or dry_run):
        action = "Erase the bodies of" if policy.how is PruneMode.ERASE else "Remove"
        click.confirm(
            f"{action} jobs that ended more than {plain(older_than)} ago in {plain(where)}?",
            abort=True,
            err=True,
        )

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
    outcome = "would be " if dry_run else ""
    outcome += "erased" if policy.how is PruneMode.ERASE else "removed"
    click.echo(
        f"{report.jobs} jobs {outcome}: {report.events} events, {report.size} bytes; "
        f"{report.blobs} blobs, {report.blob_bytes} bytes"
    )
    for why, count in report.kept.items():
        click.echo(f"{count} kept: {why}", err=True)
