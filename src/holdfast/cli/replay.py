"""`holdfast replay` and `holdfast fork`: replay a journal, or start a new job from a part of it."""

from __future__ import annotations

import asyncio
import sys
from typing import Any

import click

from holdfast.api.job_records import EventView, Walk, Walked
from holdfast.cli.decisions import find_step, parse_argument
from holdfast.cli.open_store import client_at, existing, server
from holdfast.cli.options import by_option, json_option, store_option
from holdfast.cli.output import plain, table, to_json, wait_for
from holdfast.cli.render import short
from holdfast.cli.run import code_of
from holdfast.client.client import SAME
from holdfast.engine.replay_check import Difference, ReplayResult, replay_journal
from holdfast.engine.replay_check import replay as replay_job
from holdfast.engine.runner_config import Program
from holdfast.errors import InvalidSetting, NotFound
from holdfast.model import canonical
from holdfast.model.hash_chain import SealedEvent
from holdfast.model.jobs import SubmittedJob
from holdfast.model.work import plain_kind
from holdfast.runtime.app import App
from holdfast.runtime.app_loader import load
from holdfast.store.clock import SystemClock


@click.command()
@click.argument("job_id", metavar="ID")
@click.option("--app", "app_at", envvar="HOLDFAST_APP", help="The application: app.py, or a module.")
@store_option
@json_option
def replay(job_id: str, app_at: str | None, where: str, *, as_json: bool) -> None:
    """Replay a finished job's journal through the code: nothing is called, nothing is written.

    Prints whether the code still matches the journal, or the first step that differs (exit status 1). With
    HOLDFAST_API_URL the journal is read from that server; the code is always the local one. Without code, prints the
    recorded result of each call.

    Example: holdfast replay job_06h57w4p2ksb3f1cqn8xv0zt6e --app app.py
    """
    if app_at is None and server():
        _show_walk(wait_for(_walk(job_id, where)), as_json=as_json)
        return
    outcome = wait_for(_replay(job_id, app_at, where))
    if as_json:
        click.echo(to_json(outcome))
    elif outcome.difference is None:
        click.echo(f"identical: {outcome.steps} steps replayed, no live calls, same result")
    else:
        _show(outcome.difference)
    sys.exit(0 if outcome.same else 1)


async def _replay(job_id: str, app_at: str | None, where: str) -> ReplayResult:
    if app_at is not None and server():
        return await _replay_from_afar(job_id, app_at, where)
    app = load(app_at or await code_of(where, job_id))
    store = await existing(where)
    try:
        program = _program(app, (await store.jobs.get(job_id)).kind)
        return await asyncio.ensure_future(replay_job(store, job_id, program, clock=SystemClock()))
    finally:
        await store.close()


async def _walk(job_id: str, where: str) -> Walk:
    async with client_at(where) as client:
        return await client.walk(job_id)


def _show_walk(walk: Walk, *, as_json: bool) -> None:
    if as_json:
        click.echo(to_json(walk))
        return
    rows = [
        (
            step.step_key,
            step.answer.replace("_", " "),
            "" if step.seq is None else step.seq,
            short(step.error if step.answer is Walked.RAISES else step.result, 60),
        )
        for step in walk.steps
    ]
    table(("step", "replay", "event", "value"), rows, as_json=False)
    click.echo(f"{len(rows)} recorded steps; no code was run. To run it: --app app.py", err=True)


async def _replay_from_afar(job_id: str, app_at: str, where: str) -> ReplayResult:
    """Replays the local code over a journal from the server. Its hashes are recomputed here."""
    async with client_at(where) as client:
        job, events = await client.get(job_id), await client.events(job_id)
    if job.session_id is not None:
        msg = f"job {job_id} is a turn of a session, and its replay needs messages that only the store has"
        raise InvalidSetting(
            msg, hint=f"Replay it with the store: holdfast replay {job_id} --app {app_at} --store …"
        )
    program = _program(load(app_at), job.kind)
    sealed = [_sealed(event) for event in events]
    replaying = replay_journal(job_id, sealed, program, clock=SystemClock(), namespace=job.namespace)
    return await asyncio.ensure_future(replaying)


def _sealed(event: EventView) -> SealedEvent:
    body = canonical.encode(event.body)
    return SealedEvent(
        seq=event.seq,
        type=event.type,
        version=event.version,
        fence=event.fence,
        at=event.at,
        body=body,
        body_digest=canonical.digest(body),
        hash=bytes.fromhex(event.hash),
    )


def _program(app: App, kind: str) -> Program:
    program = app.programs().get(kind) or app.programs().get(plain_kind(kind))
    if program is None:
        msg = f"the application has no agent called {kind!r}"
        raise NotFound(msg, hint=f"Its agents: {', '.join(sorted(app.programs())) or 'none'}.")
    return program


def _show(difference: Difference) -> None:
    click.echo(f"different: {plain(difference.why)}")
    for name, step in (("recorded", difference.recorded), ("attempted", difference.attempted)):
        if step is not None:
            place = "" if step.seq is None else f" (event {step.seq})"
            args = "" if step.args is None else f"  {plain(to_json(step.args))}"
            click.echo(f"  {name:<10} {plain(step.step_key)}{place}{args}")


@click.command()
@click.argument("job_id", metavar="ID")
@click.option(
    "--at",
    required=True,
    help="First step that the new job runs itself: a step key, the name of a tool, or the number of an event.",
)
@click.option("--input", "changed", metavar="JSON|@FILE", help="Input of the new job.  [default: the same]")
@click.option("--id", "fork_id", help="Id of the new job; repeating the command with it changes nothing.")
@click.option(
    "--edit",
    "edits",
    nargs=2,
    multiple=True,
    metavar="STEP JSON|@FILE",
    help="Replace the recorded result of a read or of a model before that step; may be repeated.",
)
@click.option("--why", default="", help="The reason; written to the journal.")
@by_option
@store_option
@json_option
def fork(
    job_id: str,
    at: str,
    changed: str | None,
    fork_id: str | None,
    edits: tuple[tuple[str, str], ...],
    where: str,
    *,
    why: str,
    by: str,
    as_json: bool,
) -> None:
    """Fork a job: create a new job that shares its history before a step and runs the rest itself.

    No call of the shared history is made again. Calls after it use idempotency keys of the new job. `holdfast trace ID`
    shows the step keys.

    Example: holdfast fork job_06h57w4p2ksb3f1cqn8xv0zt6e --at write
    """
    other: Any = SAME if changed is None else parse_argument(changed)

    async def work() -> SubmittedJob:
        async with client_at(where) as client:
            point = int(at) if at.isdecimal() else await find_step(client, job_id, at)
            results = {
                await find_step(client, job_id, step): parse_argument(result) for step, result in edits
            }
            return await client.fork(
                job_id, at=point, input=other, fork_id=fork_id, edits=results, by=by, why=why
            )

    forked = wait_for(work())
    if as_json:
        click.echo(to_json(forked))
        return
    click.echo(forked.job_id)
    click.echo(f"  holdfast job {plain(forked.job_id)}", err=True)
