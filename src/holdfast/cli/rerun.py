"""`holdfast replay` and `holdfast fork`: a job's past, walked again or shared."""

from __future__ import annotations

import asyncio
import sys
from typing import Any

import click

from holdfast.cli.decide import given
from holdfast.cli.opened import existing
from holdfast.cli.options import json_option, store_option
from holdfast.cli.run import code_of
from holdfast.cli.talk import plain, to_json, wait_for
from holdfast.engine.fork import SAME
from holdfast.engine.fork import fork as fork_job
from holdfast.engine.replayed import Difference, Replayed
from holdfast.engine.replayed import replay as replay_job
from holdfast.errors import NotFound
from holdfast.model.ids import RandomIds
from holdfast.model.jobs import Submitted
from holdfast.runtime.loading import load
from holdfast.store.clock import SystemClock


@click.command()
@click.argument("job_id", metavar="ID")
@click.option("--app", "app_at", envvar="HOLDFAST_APP", help="The code: app.py, or a module.")
@store_option
@json_option
def replay(job_id: str, app_at: str | None, where: str, *, as_json: bool) -> None:
    """Run a finished job's code over its journal: nothing is called, nothing is written.

    Says whether the code still goes the way that the journal tells, or the first step where it does not (exit 1).

    Example: holdfast replay job_06h57w4p2ksb3f1cqn8xv0zt6e --app app.py
    """
    found = wait_for(_replay(job_id, app_at, where))
    if as_json:
        click.echo(to_json(found))
    elif found.difference is None:
        click.echo(f"the same: {found.steps} steps, no live call, the same end")
    else:
        _show(found.difference)
    sys.exit(0 if found.same else 1)


async def _replay(job_id: str, app_at: str | None, where: str) -> Replayed:
    app = load(app_at or await code_of(where, job_id))
    store = await existing(where)
    try:
        record = await store.jobs.get(job_id)
        program = app.programs().get(record.kind)
        if program is None:
            msg = f"the code has no agent called {record.kind!r}"
            raise NotFound(msg, hint=f"There are: {', '.join(sorted(app.programs())) or 'none'}.")
        return await asyncio.ensure_future(replay_job(store, job_id, program, clock=SystemClock()))
    finally:
        await store.close()


def _show(difference: Difference) -> None:
    click.echo(f"it differs: {plain(difference.why)}")
    for name, step in (("recorded", difference.recorded), ("attempted", difference.attempted)):
        if step is not None:
            place = "" if step.seq is None else f" (event {step.seq})"
            args = "" if step.args is None else f"  {plain(to_json(step.args))}"
            click.echo(f"  {name:<10} {plain(step.step_key)}{place}{args}")


@click.command()
@click.argument("job_id", metavar="ID")
@click.option("--at", required=True, help="The step that is done anew (or the number of an event).")
@click.option("--input", "changed", metavar="JSON|@FILE", help="Another input than the original's.")
@click.option("--id", "fork_id", help="The new job's id: the same id twice is one fork.")
@store_option
@json_option
def fork(
    job_id: str, at: str, changed: str | None, fork_id: str | None, where: str, *, as_json: bool
) -> None:
    """A new job with everything that this one had recorded before a step, which does the rest itself.

    Nothing of the shared past is called again; what comes after is sent under keys of the new job.

    Example: holdfast fork job_06h57w4p2ksb3f1cqn8xv0zt6e --at 0/write#2
    """
    forked = wait_for(_fork(job_id, at, changed, fork_id, where))
    if as_json:
        click.echo(to_json(forked))
        return
    click.echo(forked.job_id)
    click.echo(f"  holdfast job {plain(forked.job_id)}", err=True)


async def _fork(job_id: str, at: str, changed: str | None, fork_id: str | None, where: str) -> Submitted:
    other: Any = SAME if changed is None else given(changed)
    store = await existing(where)
    try:
        point = int(at) if at.isdecimal() else at
        return await fork_job(store, job_id, at=point, ids=RandomIds(), given=other, fork_id=fork_id)
    finally:
        await store.close()
