"""`holdfast export`, `holdfast export-key` and `holdfast verify`: journal export, its signature, verification."""

from __future__ import annotations

import os
from pathlib import Path

import click

from holdfast.api.job_records import Checked
from holdfast.cli import render
from holdfast.cli.open_store import client_at, existing, server
from holdfast.cli.options import json_option, store_option
from holdfast.cli.output import plain, to_json, wait_for
from holdfast.client import export_file, job_export, signing
from holdfast.client.http import RemoteClient
from holdfast.errors import InvalidSetting
from holdfast.model import canonical


@click.command()
@click.argument("job_id", metavar="ID")
@click.option("-o", "--output", type=click.Path(path_type=Path), help="File to write.  [default: job-ID.zip]")
@store_option
@json_option
def export(job_id: str, output: Path | None, where: str, *, as_json: bool) -> None:
    """Export a job's journal to a file that can be verified anywhere; signed if HOLDFAST_SIGNING_KEY names a key.

    Example: holdfast export job_06h57w4p2ksb3f1cqn8xv0zt6e -o job.zip
    """
    data = wait_for(_exported(job_id, where))
    file = Path(f"job-{canonical.hex_digest(job_id.encode())[:16]}.zip") if output is None else output
    try:
        with os.fdopen(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as stream:
            stream.write(data)
    except OSError as error:
        msg = f"{str(file)!r} cannot be written: {error.strerror}"
        raise InvalidSetting(msg, hint="Name another file with -o.") from None
    verdict = export_file.check(data)
    if as_json:
        click.echo(
            to_json(
                {
                    "file": str(file),
                    "bytes": len(data),
                    "signed_by": verdict.signed_by,
                    "events": verdict.events,
                }
            )
        )
        return
    signed = f"signed by {verdict.signed_by}" if verdict.signed_by else "not signed: set HOLDFAST_SIGNING_KEY"
    click.echo(f"{plain(str(file))}: {verdict.events} events, {verdict.blobs} blobs, {signed}")


async def _exported(job_id: str, where: str) -> bytes:
    url = server()
    if url:
        async with RemoteClient(url) as remote:
            return await remote.export(job_id)
    store = await existing(where)
    try:
        return await job_export.archive(store, await store.jobs.head(job_id), store.clock.wall_us())
    finally:
        await store.close()


@click.command("export-key")
@click.argument("file", type=click.Path(path_type=Path))
def export_key(file: Path) -> None:
    """Create the key that signs exports, and print its public key, which verifies them.

    Example: holdfast export-key signing.pem
    """
    click.echo(signing.format_public_key(signing.make_key(file).public))
    click.echo(
        f"Set HOLDFAST_SIGNING_KEY={plain(str(file))} to sign exports. Keep that file secret.", err=True
    )


@click.command()
@click.argument("what", metavar="ID|FILE")
@click.option(
    "--public-key",
    "named",
    help="Require a signature by this public key (as `export-key` printed it, or a file).",
)
@store_option
@json_option
def verify(what: str, named: str | None, where: str, *, as_json: bool) -> None:
    """Verify one job's journal from its first event, in the store or in an exported file (which needs no store).

    Exit status 1 if it is damaged. `holdfast db verify` verifies a whole store.

    Example: holdfast verify job_06h57w4p2ksb3f1cqn8xv0zt6e
    """
    if Path(what).is_file():
        _verify_file(Path(what), None if named is None else signing.public_key(named), as_json=as_json)
        return
    if named is not None:
        raise InvalidSetting("--public-key is for exported files", hint="Name the file that was exported.")
    checked = wait_for(_checked(what, where))
    counted = "1 event" if checked.events == 1 else f"{checked.events:,} events"
    _say(counted, checked.violations, to_json(checked) if as_json else None)


async def _checked(job_id: str, where: str) -> Checked:
    async with client_at(where) as client:
        return await client.verify(job_id)


def _verify_file(file: Path, public: bytes | None, *, as_json: bool) -> None:
    verdict = export_file.check(file.read_bytes(), public)
    signed = f"signed by {verdict.signed_by}" if verdict.signed_by else "not signed"
    if verdict.signed_by and not verdict.trusted:
        signed += " (not compared with a key that you trust: use --public-key)"
    counted = f"job {verdict.job_id}, {verdict.events:,} events, {verdict.blobs:,} blobs, {signed}"
    _say(counted, verdict.problems, to_json(verdict) if as_json else None)


def _say(counted: str, problems: tuple[str, ...], as_json: str | None) -> None:
    if as_json is not None:
        click.echo(as_json)
    else:
        click.echo(f"{plain(counted)}: {'verified' if not problems else 'damaged'}")
        for problem in problems:
            render.console().print(render.indent(render.text(problem, "red")), soft_wrap=True)
    if problems:
        raise click.exceptions.Exit(1)
