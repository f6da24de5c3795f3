"""`holdfast jobs` and `holdfast job`: looking at jobs."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, Final

import click

from holdfast.api.job_records import BudgetView, JobView, Need, PlanView
from holdfast.cli import live_view, render
from holdfast.cli.open_store import client_at
from holdfast.cli.options import json_option, store_option
from holdfast.cli.output import to_json, wait_for
from holdfast.client.client import Client
from holdfast.engine.tracebacks import format_error, format_traceback
from holdfast.errors import InvalidPayload
from holdfast.model.budget import WORDS, show
from holdfast.model.jobs import JobFilter, JobRecord
from holdfast.model.page import Page
from holdfast.model.side_effects import Effect
from holdfast.model.states import Status, WaitReason, parse_status
from holdfast.model.suspicion import find_parent, is_suspect
from holdfast.model.worker_identity import short

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table


ERROR_SHOWN_MAX: Final = 2_000
NODES_NAMED: Final = 8
"""So many nodes of a plan are named in one line; the trace has all."""


@click.command()
@click.option("--status", metavar="STATUS", help=f"Only these: {', '.join(Status)}.")
@click.option("--kind", help="Only jobs of this kind.")
@click.option("--reason", metavar="REASON", help=f"Only jobs that wait for this: {', '.join(WaitReason)}.")
@click.option("--limit", default=50, show_default=True, type=click.IntRange(1, 1000), help="At most so many.")
@click.option("--cursor", help="Go on where the last page ended.")
@click.option("--watch", is_flag=True, help="Look again every second, until Ctrl-C.")
@click.option("--person", is_flag=True, help="Everything that needs a person, with the command to type.")
@store_option
@json_option
def jobs(
    where: str,
    *,
    status: str | None,
    kind: str | None,
    reason: str | None,
    limit: int,
    cursor: str | None,
    watch: bool,
    person: bool,
    as_json: bool,
) -> None:
    """List jobs, newest first.

    Example: holdfast jobs --status waiting --reason reconcile
    """
    if person:
        _show_needs(wait_for(_needs(where)), as_json=as_json)
        return
    which = JobFilter(
        status=None if status is None else parse_status(status),
        wait_reason=None if reason is None else _reason(reason),
        kind=kind,
    )

    async def listed(client: Client) -> Page[JobRecord]:
        return await client.list(which, limit=limit, cursor=cursor)

    async def look() -> Page[JobRecord]:
        async with client_at(where) as client:
            return await listed(client)

    if watch:
        live_view.follow(where, listed, _jobs_table, as_json=as_json)
        return
    page = wait_for(look())
    if as_json:
        for record in page:
            click.echo(to_json(record))
    elif page.items:
        render.console().print(_jobs_table(page))
    else:
        click.echo("no jobs" if which == JobFilter() else "no such jobs", err=True)
    if page.next is not None:
        click.echo(f"more: --cursor {page.next}", err=True)


def _reason(word: str) -> WaitReason:
    try:
        return WaitReason(word.strip().lower().replace("-", "_").replace(" ", "_"))
    except ValueError:
        msg = f"{word!r} is nothing that a job waits for"
        raise InvalidPayload(msg, hint=f"Use one of {', '.join(WaitReason)}.") from None


def _grid(*columns: str) -> Table:
    from rich.table import Table

    grid = Table(box=None, header_style="bold", pad_edge=False)
    for column in columns:
        grid.add_column(column, no_wrap=True, overflow="ellipsis")
    return grid


def _jobs_table(page: Page[JobRecord]) -> Table:
    now = _now()
    grid = _grid("job", "kind", "state", "age", "events")
    grid.columns[0].overflow = "fold"
    grid.columns[0].min_width = max((min(len(record.job_id), 40) for record in page), default=3)
    for column in grid.columns[3:]:
        column.justify = "right"
    for record in page:
        grid.add_row(
            render.text(record.job_id),
            render.text(record.kind),
            render.state(record.status, record.wait_reason),
            render.text(render.span(now - record.created_at), "dim"),
            render.text(record.head_seq, "dim"),
        )
    return grid


async def _needs(where: str) -> tuple[Need, ...]:
    async with client_at(where) as client:
        return await client.waiting_for_person()


def _show_needs(needs: tuple[Need, ...], *, as_json: bool) -> None:
    if as_json:
        for need in needs:
            click.echo(to_json(need))
        return
    if not needs:
        click.echo("nothing waits for a person", err=True)
        return
    console, now = render.console(), _now()
    for need in needs:
        waited = render.text(f"for {render.span(now - need.since)}", "dim")
        console.print(
            render.joined(render.state(need.job_status, need.reason), waited, need.job_kind), soft_wrap=True
        )
        console.print(render.indented(render.text(need.what)), soft_wrap=True)
        console.print(render.indented(render.text(f"holdfast job {need.job_id}", "cyan")), soft_wrap=True)


# ── one job ───────────────────────────────────────────────────────────────────────────────────────


@click.command()
@click.argument("job_id", metavar="ID")
@store_option
@json_option
def job(job_id: str, where: str, *, as_json: bool) -> None:
    """Show one job: what it is, where it stands, what it waits for, and what to type to go on.

    Example: holdfast job job_06h57w4p2ksb3f1cqn8xv0zt6e
    """

    async def look() -> JobView:
        async with client_at(where) as client:
            return await client.get(job_id)

    found = wait_for(look())
    if as_json:
        click.echo(to_json(found))
        return
    console = render.console()
    state = render.state(found.status, found.wait_reason)
    console.print(render.joined(render.text(found.job_id, "bold"), found.kind, state), soft_wrap=True)
    console.print()
    for name, value in _facts(found, console.width - 14):
        console.print(_line(name, value), soft_wrap=True)
    for need in found.needs:
        console.print()
        _show_need(console, need)
    console.print()
    if found.worker:
        console.print(render.text(f"{short(found.worker)} is at work on it."))
    elif found.status is Status.PENDING:
        console.print(render.text("Any worker that has code for it takes it next."))
    console.print(_line("its life", f"holdfast trace {found.job_id}", "cyan"), soft_wrap=True)


def _line(name: str, value: object, style: str = "") -> Any:
    from rich.text import Text

    line = Text(f"  {name:<10}  ", "dim")
    return line.append_text(value if isinstance(value, Text) else render.text(value, style))


def _facts(job: JobView, width: int) -> list[tuple[str, object]]:
    now = _now()

    def when(at: int) -> str:
        return f"{render.instant(at)}, {render.span(now - at)} ago"

    rows: list[tuple[str, object]] = [("submitted", when(job.created_at))]
    if job.started_at is not None:
        rows.append(("started", when(job.started_at)))
    if job.ended_at is not None:
        rows.append(
            (str(job.status), f"{when(job.ended_at)}, after {render.span(job.ended_at - job.created_at)}")
        )
    place = f"queue {job.queue}, priority {job.priority}"
    if job.session_id:
        place += f", session {job.session_id}"
    rows.append(("place", place))
    if job.parent_job_id:
        rows.append(("parent", job.parent_job_id))
    if job.request_key:
        rows.append(("request", job.request_key))
    effects = ", ".join(f"{count} {status.replace('_', ' ')}" for status, count in sorted(job.calls.items()))
    done = f"{_count(job.steps, 'read')}, effects: {effects or 'none'}"
    rows.append(("done", f"{done}; {_count(job.events, 'event')}"))
    rows += [("budget", _used(budget, job, now)) for budget in job.budgets]
    if job.claims:
        tries = f"{_count(job.claims, 'claim')}, last by {short(job.last_worker or 'nobody')}"
        used = f"; used up: {_count(job.attempts, 'attempt')}, {_count(job.takeovers, 'takeover')}"
        rows.append(("workers", tries + (used if job.attempts or job.takeovers else "")))
    if job.worker is not None and find_parent(job.worker) is not None:
        rows.append(("alone", f"since {when(job.changed_at)}, in a process of its own: its workers died"))
    elif is_suspect(job.takeovers) and job.status is Status.PENDING and not _is_listed(job):
        command = f"holdfast worker YOUR_MODULE --queue {job.queue}"
        rows.append(("alone", f"its workers died; waits for a worker that runs it alone: {command}"))
    if job.cancel_requested:
        why = f": {job.cancelled_why}" if job.cancelled_why else ""
        rows.append(("ended by", f"{job.cancelled_by or 'somebody'}{why}"))
    elif job.unread and job.worker is None:
        rows.append(("mail", f"{_count(job.unread, 'letter')} not read yet"))
    rows += [("plan", _plan(plan)) for plan in job.plans]
    rows.append(("input", render.short(job.input, width)))
    if job.status is Status.COMPLETED:
        rows.append(("output", render.text(render.short(job.output, width), "green")))
    if job.error is not None and job.wait_reason is not WaitReason.DEAD_LETTER:
        known = isinstance(job.error, dict) and "type" in job.error
        error = format_error(job.error)[:ERROR_SHOWN_MAX] if known else render.short(job.error, width)
        rows.append(("error" if job.over else "last error", render.text(error, "red")))
        rows += _traceback(job.error)
    return rows


def _is_listed(job: JobView) -> bool:
    """Whether it is shown below that no worker takes this suspect."""
    return any(need.reason is WaitReason.SUSPECT for need in job.needs)


def _traceback(error: Any) -> list[tuple[str, object]]:
    """The author's frames of an error, one row for each line."""
    return [("", render.outlined(line, "dim")) for line in format_traceback(error)]


def _plan(plan: PlanView) -> str:
    states: dict[str, list[str]] = {}
    for node in plan.nodes:
        states.setdefault(node.state, []).append(node.name)
    told = "; ".join(f"{state}: {_few(names)}" for state, names in states.items())
    return f"{plan.done} of {_count(len(plan.nodes), 'node')} done ({told})"


def _few(names: list[str]) -> str:
    more = f" and {len(names) - NODES_NAMED:,} more" if len(names) > NODES_NAMED else ""
    return ", ".join(names[:NODES_NAMED]) + more


def _used(budget: BudgetView, job: JobView, now: int) -> str:
    """What is spent of what. Depth and fan-out are looked at where children are started, and are no sums."""
    spent = budget.spent | {"wall_us": (job.ended_at or now) - budget.since}
    parts = [
        f"{show(limit, spent[limit])} of {show(limit, most)} {WORDS[limit]}" if limit in spent else ""
        for limit, most in budget.limits.items()
    ]
    parts += [f"at most {most} {WORDS[limit]}" for limit, most in budget.limits.items() if limit not in spent]
    whose = "" if budget.budget_id == job.job_id else f" (with all of {budget.budget_id})"
    return (", ".join(filter(None, parts)) or "no limits") + whose


def _count(number: int, what: str) -> str:
    return f"{number:,} {what}" + ("" if number == 1 else "s")


def _show_need(console: Console, need: Need) -> None:
    """What it waits for: the evidence, then the exact words to go on."""
    now = _now()
    head = "It waits for a person" if need.person else "It waits for"
    if need.job_status is Status.RUNNING:
        head = "It runs, and needs a person"
    since = f" (for {render.span(now - need.since)})"
    join = ": " if need.person else " "
    console.print(render.text(f"{head}{join}{need.what}{since}", "bold yellow" if need.person else ""))
    width = console.width - 14
    if need.step_key:
        called = f"{need.step_key}" + (f", generation {need.generation}" if need.generation else "")
        console.print(_line("call", called), soft_wrap=True)
    if need.effect:
        console.print(_line("class", need.effect))
    if need.args is not None:
        # Somebody is asked to agree to these, or to say what became of them: all of them, to the last character.
        shown = to_json(need.args) if need.person else render.short(need.args, max(width, 400))
        console.print(_line("arguments", shown), soft_wrap=True)
        if need.person and need.args_digest:
            console.print(_line("digest", need.args_digest), soft_wrap=True)
    if need.key:
        console.print(_line("key", need.key))
    if need.due_at is not None:
        left = need.due_at - now
        due = f"{render.instant(need.due_at)}" + (f", in {render.span(left)}" if left > 0 else ", due")
        console.print(_line("until", due))
    for line in _evidence(need):
        console.print(_line(*line), soft_wrap=True)
    if need.commands:
        console.print(render.text("One of these goes on:"))
    for command in need.commands:
        console.print(render.indented(render.text(command, "cyan")), soft_wrap=True)
        if "--not-happened" in command and need.allowed_at is not None and need.allowed_at > now:
            allowed = (
                f"allowed from {render.instant(need.allowed_at)}, in {render.span(need.allowed_at - now)}"
            )
            console.print(render.indented(render.text(allowed, "dim"), 6))
    if need.reason is WaitReason.RECONCILE and need.effect == Effect.UNSAFE:
        _show_declarations(console)


def _show_declarations(console: Console) -> None:
    """How to be asked less: what a call that nobody declared could have been declared as."""
    console.print(
        render.text("Next time nobody need be asked, if the function says what repeating it would do:")
    )
    for declared, means in _DECLARATIONS:
        console.print(render.indented(render.joined(render.text(declared, "cyan"), means)))


_DECLARATIONS: Final = (
    ('@hf.step(effect="read_only")', "run again: it changes nothing"),
    ('@hf.step(effect="idempotent")', "sent again, under the same `key: hf.Key`"),
    ('@hf.step(effect="verifiable", probe=…)', "looked up first, at its receiver"),
)


def _evidence(need: Need) -> list[tuple[str, object]]:
    found = need.evidence
    if need.question_id:
        return [("question", need.question_id), ("fits", render.short(found, 400))]
    if isinstance(found, str):
        return [("why", found), *_traceback(need.error)]
    if need.reason is WaitReason.DRIFT and isinstance(found, dict):
        rows: list[tuple[str, object]] = [("why", found.get("why", ""))]
        rows += [("recorded", _call(one)) for one in found.get("recorded", ())]
        return [*rows, ("attempted", _call(found.get("attempted")))]
    if need.reason is WaitReason.STALLED and isinstance(found, dict):
        return [line for task in found.get("tasks", ()) for line in _task(task)]
    if isinstance(found, list):
        return _causes(found)
    return []


def _task(task: Any) -> list[tuple[str, object]]:
    """A task of a stalled job: the author's line where it stands, then the frames that lead there."""
    if not isinstance(task, dict):
        return []
    frames = [line for line in task.get("stack", ()) if line != task.get("at")]
    return [
        ("task", task.get("task", "")),
        ("stands at", render.text(task.get("at", ""), "bold")),
        *(("", render.text(line, "dim")) for line in frames),
    ]


def _call(one: Any) -> str:
    if not isinstance(one, dict):
        return render.short(one, 200)
    args = (
        render.short(one["args"], 200) if "args" in one else f"arguments {str(one.get('args_digest'))[:12]}…"
    )
    return f"{one.get('step_key')}  {args}"


def _causes(causes: list[Any]) -> list[tuple[str, object]]:
    """All causes of a dead letter. A traceback that is the same again is not shown again."""
    rows: list[tuple[str, object]] = []
    shown: list[str] = []
    for cause in causes:
        frames = format_traceback(cause.get("error")) if isinstance(cause, dict) else []
        again = bool(frames) and frames == shown
        head, *lines = _cause(cause)
        rows += [head, ("", render.text("the same traceback", "dim"))] if again else [head, *lines]
        shown = frames or shown
    return rows


def _cause(cause: Any) -> list[tuple[str, object]]:
    """A failed attempt or a lost worker: when, on which worker, and the error with its traceback."""
    if not isinstance(cause, dict):
        return [("cause", render.text(render.short(cause, 300), "red"))]
    error, at, worker = cause.get("error"), cause.get("at"), cause.get("holder")
    where = [render.instant(at)] if isinstance(at, int) else []
    where += [f"on {short(str(worker))}"] if worker else []
    head = "  ".join([*where, str(cause.get("why", "")) if error is None else format_error(error)])
    return [("cause", render.text(head, "red")), *_traceback(error)]


def _now() -> int:
    return time.time_ns() // 1000
