"""`holdfast run`: runs one job in the foreground; prints the command that continues it after an interruption."""

from __future__ import annotations

import asyncio
import contextlib
import shlex
import signal
import sys
from pathlib import Path
from typing import Any

import click
import msgspec

from holdfast.cli.isolated import make_isolated_command
from holdfast.cli.open_store import server, store_for
from holdfast.cli.options import app_store_option
from holdfast.cli.output import plain, to_json, wait_for
from holdfast.errors import InvalidPayload, InvalidSetting, JobHeld, NotFound
from holdfast.model import canonical
from holdfast.model.ids import RandomIds
from holdfast.model.jobs import JobHead
from holdfast.model.states import TERMINAL, WaitReason
from holdfast.runtime.app import App
from holdfast.runtime.app_loader import load
from holdfast.runtime.process import ForegroundProcess, Process, open_process

INTERRUPTED = 130


class Spec(msgspec.Struct):
    """A job specification in a file."""

    agent: str
    input: dict[str, Any] = {}
    app: str | None = None
    id: str | None = None


@click.command()
@click.option(
    "--job",
    "spec_path",
    type=click.Path(path_type=Path),
    help="Job specification, a JSON file: agent, input, app, id.",
)
@click.option("--resume", is_flag=True, help="Continue a job that was interrupted.")
@click.option("--run-id", "--id", "job_id", help="Id of the job to continue.")
@click.option("--app", "app_at", envvar="HOLDFAST_APP", help="The application: app.py, or a module.")
@click.option(
    "--write-resume",
    type=click.Path(path_type=Path),
    help="Write the command that continues the job to this file.",
)
@app_store_option
def run(
    spec_path: Path | None,
    job_id: str | None,
    app_at: str | None,
    write_resume: Path | None,
    where: str,
    *,
    resume: bool,
) -> None:
    """Run one job in this process to its end, and print its result.

    It may be killed at any time: on Ctrl-C it prints the command that continues the job. It works on a store, even if
    HOLDFAST_API_URL names a server. It runs this job and its children, and no other job.

    Example: holdfast run --job report.json --app app.py
    """
    if resume is (spec_path is not None) or resume is (job_id is None):
        msg = "the job to run is not clear: give either --job, or --resume with --run-id"
        raise InvalidSetting(
            msg,
            hint="Start one: holdfast run --job spec.json. Continue one: holdfast run --resume --run-id ID",
        )
    if server():
        click.echo("HOLDFAST_API_URL is ignored: the job runs in this process, on a store", err=True)
    sys.exit(wait_for(_run(spec_path, job_id, app_at, write_resume, where)))


async def _run(
    spec_path: Path | None, job_id: str | None, app_at: str | None, write_resume: Path | None, where: str
) -> int:
    spec = None if spec_path is None else _read(spec_path)
    if spec is not None and spec.app is not None and app_at is None:
        assert spec_path is not None
        app_at = str(spec_path.parent / spec.app)
    code = app_at or await code_of(where, job_id)
    app = load(code)
    if app_at is not None:  # otherwise the journal names the code, and the store is the one given
        where = store_for(app, where)
    draft = None if spec is None else _draft(app, spec, app_at)
    process = await open_process(
        app.programs(),
        where,
        offer=app.offer(concurrency=app.concurrency),
        strict=app.strict,
        process_class=ForegroundProcess,
        serving=False,
        ends_when_blocked=True,
        isolated_command=make_isolated_command(code, where),
        on_undurable=app.choose_on_undurable("warn"),
    )
    try:
        if draft is not None:
            job_id = await process.start(draft)
        assert job_id is not None
        again = ["holdfast", "run", "--resume", "--run-id", job_id, "--store", where]
        command = shlex.join([*again, *(["--app", app_at] if app_at else [])])
        if write_resume is not None:
            write_resume.write_text(command + "\n", encoding="utf-8")
        return await _until_over(process, job_id, command)
    finally:
        await process.close()


def _read(path: Path) -> Spec:
    try:
        value = canonical.decode(path.read_bytes())
    except FileNotFoundError:
        msg = f"there is no file {path}"
        raise NotFound(msg, hint='Write one: {"agent": "report", "input": {"topic": "kelp"}}') from None
    except InvalidPayload as error:
        msg = f"{path}: {error}"
        raise InvalidPayload(msg, hint=error.hint) from None
    try:
        return msgspec.convert(value, Spec)
    except msgspec.ValidationError as error:
        msg = f"{path}: {error}"
        raise InvalidPayload(
            msg, hint='It looks like {"agent": "report", "input": {"topic": "kelp"}, "app": "app.py"}'
        ) from None


def _draft(app: App, spec: Spec, app_at: str | None) -> Any:
    agent = app.agents.get(spec.agent)
    if agent is None:
        msg = f"there is no agent called {spec.agent!r}"
        raise NotFound(msg, hint=f"Agents of the application: {', '.join(sorted(app.agents)) or 'none'}.")
    draft = agent.draft(spec.input, job_id=spec.id or RandomIds().new("job"))
    return msgspec.structs.replace(draft, code_version=app_at)


async def code_of(where: str, job_id: str | None) -> str:
    """The application that the journal of a job names."""
    from holdfast.model.hash_chain import unseal
    from holdfast.runtime import open_store

    hint = "Name the application: --app app.py"
    if job_id is None:
        msg = "no application was named"
        raise InvalidSetting(msg, hint=hint)
    store = await open_store(where, migrating=False)
    try:
        await store.jobs.head(job_id)
        (first,) = await store.journal.read(job_id, limit=1)
    finally:
        await store.close()
    code_version: str | None = getattr(unseal(first), "code_version", None)
    if code_version is None:
        msg = f"the journal of job {job_id} does not name its application"
        raise InvalidSetting(msg, hint=hint)
    return code_version


async def _until_over(process: Process, job_id: str, command: str) -> int:
    """Waits for the job's end and prints its result; on an interrupt, prints the command that continues it."""
    loop = asyncio.get_running_loop()
    interrupted = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, interrupted.set)
    click.echo(f"job {job_id}", err=True)
    waiting = asyncio.ensure_future(process.result(job_id))
    person = asyncio.ensure_future(_needs_a_person(process, job_id))
    stop = asyncio.ensure_future(interrupted.wait())
    try:
        await asyncio.wait([waiting, person, stop], return_when=asyncio.FIRST_COMPLETED)
        if waiting.done():
            click.echo(to_json(waiting.result()))
            return 0
        if person.done():
            raise person.result()
        click.echo(f"interrupted; job {job_id} is stored. Continue it:\n  {plain(command)}", err=True)
        return INTERRUPTED
    finally:
        for task in (waiting, person, stop):
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError, Exception):
                await task


async def _needs_a_person(process: Process, job_id: str) -> JobHeld:
    """Waits until the job needs a decision of a person; returns the error that describes it."""
    topics = frozenset({f"job:{job_id} "})
    while True:
        head = await process.store.jobs.head(job_id)
        if head.status in TERMINAL:
            await asyncio.get_running_loop().create_future()
        if head.wait_reason in {WaitReason.RECONCILE, WaitReason.APPROVAL}:
            return await _question(process, head)
        await process.store.wakeups.wait(topics, 0.2)


async def _question(process: Process, head: JobHead) -> JobHeld:
    job_id = head.job_id
    if head.wait_reason is WaitReason.APPROVAL:
        msg = f"job {job_id} waits for an approval"
        hint = f"`holdfast job {job_id}` shows the call and the commands to approve or deny it. Then continue the job."
        return JobHeld(msg, job_id=job_id, hint=hint)
    from holdfast.model.side_effects import CallStatus

    rows = await process.store.ledger.list(job_id, status=CallStatus.UNCERTAIN)
    calls = ", ".join(f"{row.tool_name} ({row.step_key})" for row in rows)
    msg = f"job {job_id} waits for a person. Outcome unknown: {calls}"
    step = rows[0].step_key if rows else "STEP"
    hint = (
        f"Check at the receiver, then: holdfast reconcile {job_id} {step} --happened | --not-happened --why …\n"
        f"  How to declare the call so that it recovers by itself: holdfast job {job_id}"
    )
    return JobHeld(msg, job_id=job_id, hint=hint)
