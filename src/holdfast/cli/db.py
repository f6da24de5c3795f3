"""`holdfast db`: status, migration, backup, restore, verification and retention of the store."""

from __future__ import annotations

from pathlib import Path

import click

from holdfast.cli.live_view import sign_of_life
from holdfast.cli.open_store import existing
from holdfast.cli.options import json_option, store_option
from holdfast.cli.output import plain, show, table, wait_for
from holdfast.cli.prune import prune
from holdfast.engine.backups import LastBackup, remember_backup
from holdfast.engine.verify.report import VerifyReport
from holdfast.engine.verify.verify import verify as verify_store
from holdfast.errors import Misuse, Unavailable
from holdfast.model.ids import RandomIds
from holdfast.runtime import open_store
from holdfast.store.backup.files import Backup
from holdfast.store.backup.stage import RestoreResult
from holdfast.store.backup.transfer import back_up
from holdfast.store.backup.transfer import restore as restore_store
from holdfast.store.contract import Store
from holdfast.store.sql.migrate import SCHEMA_VERSION
from holdfast.store.tables.store import SqlStore


@click.group()
def db() -> None:
    """Manage the store: status, migrate, backup, restore, verify, prune.

    Example: holdfast db status
    """


@db.command()
@store_option
@json_option
def status(where: str, *, as_json: bool) -> None:
    """Show the store: address, durability tier, schema, number of jobs.

    Example: holdfast db status --store sqlite:///holdfast.db
    """

    async def look() -> dict[str, object]:
        store = await existing(where)
        try:
            info = await store.info()
            counts = await store.jobs.counts()
        finally:
            await store.close()
        jobs = ", ".join(f"{count} {status}" for status, count in sorted(counts.items())) or "none"
        return {
            "address": info.address,
            "tier": info.tier,
            "survives": survives(store),
            "schema": f"{info.schema_version} (this Holdfast: {SCHEMA_VERSION})",
            "epoch": info.epoch,
            "store_id": info.store_id,
            "jobs": dict(counts) if as_json else jobs,
            **info.details,
        }

    show(wait_for(look()), as_json=as_json)


def survives(store: Store) -> str:
    """What the durability tier of this store survives, in words."""
    if store.tier.survives_power_cut:
        return "kill -9 and a power cut"
    return "kill -9; a power cut may take acknowledged records" if store.tier.survives_kill else "nothing"


@db.command()
@store_option
@json_option
def migrate(where: str, *, as_json: bool) -> None:
    """Migrate the store's schema to this version; create the store if there is none.

    A SQLite store with data is copied first. If the command is killed, run it again.

    Example: holdfast db migrate --store postgresql://app@db/holdfast
    """

    async def bring_up() -> dict[str, object]:
        store = await open_store(where, migrating=True)
        try:
            info = await store.info()
        finally:
            await store.close()
        return {"address": info.address, "schema": info.schema_version, "tier": info.tier}

    show(wait_for(bring_up()), as_json=as_json, title="schema is up to date")


@db.command()
@click.argument("target", type=click.Path(path_type=Path, dir_okay=False))
@store_option
@json_option
def backup(target: Path, where: str, *, as_json: bool) -> None:
    """Back up the store to TARGET while workers run.

    The backup is a snapshot of one instant, checked and flushed before it gets its name. It is a SQLite file for both
    databases, and restores into either.

    Example: holdfast db backup holdfast-2026-11-15.db
    """

    async def copy() -> Backup:
        store = await existing(where)
        try:
            began = store.clock.wall_us()
            result = await back_up(store, target, clock=store.clock, ids=RandomIds())
            try:
                await remember_backup(store, LastBackup(began, result.sha256))
            except (
                Unavailable
            ) as error:  # the backup is complete nevertheless: from a replica, or from a full disk
                click.echo(
                    f"the backup is complete, but its time could not be recorded in the store: {plain(str(error))}",
                    err=True,
                )
            return result
        finally:
            await store.close()

    with sign_of_life("backing up"):
        made = wait_for(copy())
    show(made, as_json=as_json, title="backup complete")


@db.command()
@click.argument("source", type=click.Path(path_type=Path, dir_okay=False))
@click.option("--yes", is_flag=True, help="Do not ask for confirmation: replaces the content of the store.")
@store_option
@json_option
def restore(source: Path, where: str, *, yes: bool, as_json: bool) -> None:
    """Restore a backup: replace the content of the store.

    Starts a new epoch: workers that still run are fenced. Unfinished jobs are held for review, because they may have
    acted after the backup was made.

    Example: holdfast db restore holdfast-2026-11-15.db --yes
    """
    if not yes:
        click.confirm(f"Replace everything in {plain(where)} by {plain(str(source))}?", abort=True, err=True)

    async def replace() -> RestoreResult:
        store = await open_store(where)
        try:
            return await restore_store(store, source, clock=store.clock, ids=RandomIds())
        finally:
            await store.close()

    with sign_of_life("restoring"):
        restored = wait_for(replace())
    show(restored, as_json=as_json, title="restore complete")
    if restored.held and not as_json:
        click.echo(
            f"{restored.held} unfinished jobs are held for review: holdfast jobs --reason restore_review",
            err=True,
        )
    if restored.paused and not as_json:
        click.echo(
            f"{restored.paused} schedules are paused. Resume one: holdfast schedule resume ID", err=True
        )
    if restored.revoked and not as_json:
        click.echo(
            f"{restored.revoked} API keys are revoked. Create new ones: holdfast api-key create", err=True
        )


@db.command()
@store_option
@json_option
def verify(where: str, *, as_json: bool) -> None:
    """Verify all invariants on one snapshot of the store; exit status 1 if one is violated.

    Example: holdfast db verify
    """

    async def check() -> VerifyReport:
        store = await existing(where)
        try:
            if not isinstance(store, SqlStore):
                msg = "a store in memory cannot be verified"
                raise Misuse(msg, hint="Use sqlite:///file.db or postgresql://….")
            return await verify_store(store)
        finally:
            await store.close()

    with sign_of_life("verifying"):
        report = wait_for(check())
    if as_json:
        show(report, as_json=True)
    else:
        click.echo(
            f"{report.checks} invariants over {report.jobs} jobs, {report.events} events, {report.sessions} sessions, "
            f"{report.blobs} blobs: "
            + ("all hold" if report.clean else f"{len(report.violations)} violations")
        )
        if report.unread:
            click.echo(
                f"{report.unread} payloads were not checked: this process does not have their encryption keys. "
                "Set HOLDFAST_PAYLOAD_KEYS.",
                err=True,
            )
        if not report.clean:
            rows = [(item.invariant, item.subject, item.detail) for item in report.violations]
            table(("invariant", "where", "what"), rows, as_json=False)
    if not report.clean:
        raise click.exceptions.Exit(1)


db.add_command(prune)
