"""`holdfast jobs` and `holdfast job`: list jobs, show one job."""

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
from holdfast.model.crash_suspects import find_parent, is_suspect
from holdfast.model.jobs import JobFilter, JobRecord
from holdfast.model.page import Page
from holdfast.model.side_effects import Effect
from holdfast.model.states import Status, WaitReason, parse_status
from holdfast.model.worker_identity import short_name

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table


ERROR_SHOWN_MAX: Final = 2_000
NODES_NAMED: Final = 8
"""Most nodes of a plan that one line names; the trace names all."""
REASONS: Final = tuple(reason for reason in WaitReason if reason is not WaitReason.SUSPECT)
"""Wait reasons that a job has in the store. A suspect is ready; `--person` lists it."""


@click.command()
@click.option("--status", metavar="STATUS", help=f"Only jobs with this status: {', '.join(Status)}.")
@click.option("--kind", help="Only jobs of this kind.")
@click.option(
    "--reason", metavar="REASON", help=f"Only jobs that wait for this reason: {', '.join(REASONS)}."
)
@click.option(
    "--limit", default=50, show_default=True, type=click.IntRange(1, 1000), help="Most rows to show."
)
@click.option("--cursor", help="Continue after the last page.")
@click.option("--watch", is_flag=True, help="Refresh every second, until Ctrl-C.")
@click.option("--person", is_flag=True, help="Everything that needs a person, longest waiting first.")
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
    job_filter = JobFilter(
        status=None if status is None else parse_status(status),
        wait_reason=None if reason is None else _reason(reason),
        kind=kind,
    )

    async def listed(client: Client) -> Page[JobRecord]:
        return await client.list(job_filter, limit=limit, cursor=cursor)

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
        click.echo("no jobs" if job_filter == JobFilter() else "no jobs match", err=True)
    if page.next is not None:
        click.echo(f"more: --cursor {page.next}", err=True)


def _reason(text: str) -> WaitReason:
    name = text.strip().lower().replace("-", "_").replace(" ", "_")
    if name not in REASONS:
        msg = f"{text!r} is not a wait reason"
        raise InvalidPayload(msg, hint=f"Use one of {', '.join(REASONS)}.")
    return WaitReason(name)


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
        click.echo("no job needs a person", err=True)
        return
    console, now = render.console(), _now()
    for need in needs:
        waited = render.text(f"for {render.span(now - need.since)}", "dim")
        console.print(
            render.join_parts(render.state(need.job_status, need.reason), waited, need.job_kind),
            soft_wrap=True,
        )
        console.print(render.indent(render.text(need.what)), soft_wrap=True)
        console.print(render.indent(render.text(f"holdfast job {need.job_id}", "cyan")), soft_wrap=True)


# ── one job ───────────────────────────────────────────────────────────────────────────────────────


@click.command()
@click.argument("job_id", metavar="ID")
@store_option
@json_option
def job(job_id: str, where: str, *, as_json: bool) -> None:
    """Show one job: status, calls, what it waits for, and the commands that continue it.

    Example: holdfast job job_06h57w4p2ksb3f1cqn8xv0zt6e
    """

    async def look() -> JobView:
        async with client_at(where) as client:
            return await client.get(job_id)

    view = wait_for(look())
    if as_json:
        click.echo(to_json(view))
        return
    console = render.console()
    state = render.state(view.status, view.wait_reason)
    console.print(render.join_parts(render.text(view.job_id, "bold"), view.kind, state), soft_wrap=True)
    console.print()
    for name, value in _facts(view, console.width - 14):
        console.print(_line(name, value), soft_wrap=True)
    for need in view.needs:
        console.print()
        _show_need(console, need)
    console.print()
    if view.worker:
        console.print(render.text(f"Running on worker {short_name(view.worker)}."))
    elif view.status is Status.PENDING:
        console.print(render.text("Ready: the next free worker that has its code claims it."))
    console.print(_line("timeline", f"holdfast trace {view.job_id}", "cyan"), soft_wrap=True)


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
    place = f"{job.queue}, priority {job.priority}"
    if job.session_id:
        place += f", session {job.session_id}"
    rows.append(("queue", place))
    if job.parent_job_id:
        rows.append(("parent", job.parent_job_id))
    if job.request_key:
        rows.append(("request", job.request_key))
    effects = ", ".join(f"{count} {status.replace('_', ' ')}" for status, count in sorted(job.calls.items()))
    calls = f"{_count(job.steps, 'read')}, side effects: {effects or 'none'}"
    rows.append(("calls", f"{calls}; {_count(job.events, 'journal event')}"))
    rows += [("budget", _used(budget, job, now)) for budget in job.budgets]
    if job.claims:
        counts = {"failed attempt": job.attempts, "takeover": job.takeovers}
        used = ", ".join(_count(number, noun) for noun, number in counts.items() if number)
        last = f", last by {short_name(job.last_worker)}" if job.last_worker else ""
        rows.append(("claims", f"{job.claims}{f' ({used})' if used else ''}{last}"))
    if job.worker is not None and find_parent(job.worker) is not None:
        rows.append(("isolated", f"since {when(job.changed_at)}, in a process of its own: its workers died"))
    elif is_suspect(job.takeovers) and job.status is Status.PENDING and not _is_listed(job):
        command = f"holdfast worker YOUR_MODULE --queue {job.queue}"
        rows.append(("isolated", f"its workers died; waits for a worker that can isolate it: {command}"))
    if job.cancel_requested:
        why = f": {job.cancelled_why}" if job.cancelled_why else ""
        rows.append(("cancel", f"requested by {job.cancelled_by or 'an unnamed person'}{why}"))
    elif job.unread and job.worker is None:
        rows.append(("mailbox", f"{_count(job.unread, 'message')} not read yet"))
    rows += [("plan", _plan(plan)) for plan in job.plans]
    rows.append(("input", render.short(job.input, width)))
    if job.status is Status.COMPLETED:
        rows.append(("output", render.text(render.short(job.output, width), "green")))
    if job.error is not None and job.wait_reason is not WaitReason.DEAD_LETTER:
        has_type = isinstance(job.error, dict) and "type" in job.error
        error = format_error(job.error)[:ERROR_SHOWN_MAX] if has_type else render.short(job.error, width)
        rows.append(("error" if job.over else "last error", render.text(error, "red")))
        rows += _traceback(job.error)
    return rows


def _is_listed(job: JobView) -> bool:
    """Whether the needs of the job already show that no worker claims this suspect."""
    return any(need.reason is WaitReason.SUSPECT for need in job.needs)


def _traceback(error: Any) -> list[tuple[str, object]]:
    """The author's frames of an error, one row for each line."""
    return [("", render.outline(line, "dim")) for line in format_traceback(error)]


def _plan(plan: PlanView) -> str:
    states: dict[str, list[str]] = {}
    for node in plan.nodes:
        states.setdefault(node.state, []).append(node.name)
    summary = "; ".join(f"{state}: {_few(names)}" for state, names in states.items())
    return f"{plan.done} of {_count(len(plan.nodes), 'node')} done ({summary})"


def _few(names: list[str]) -> str:
    more = f" and {len(names) - NODES_NAMED:,} more" if len(names) > NODES_NAMED else ""
    return ", ".join(names[:NODES_NAMED]) + more


def _used(budget: BudgetView, job: JobView, now: int) -> str:
    """What is used of each limit. Depth and fan-out are checked when children start, and are not sums."""
    spent = budget.spent | {"wall_us": (job.ended_at or now) - budget.since}
    parts = [
        f"{show(limit, spent[limit])} of {show(limit, most)} {WORDS[limit]}" if limit in spent else ""
        for limit, most in budget.limits.items()
    ]
    parts += [f"at most {most} {WORDS[limit]}" for limit, most in budget.limits.items() if limit not in spent]
    whose = "" if budget.budget_id == job.job_id else f" (shared with the tree of {budget.budget_id})"
    return (", ".join(filter(None, parts)) or "no limits") + whose


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}" + ("" if number == 1 else "s")


def _show_need(console: Console, need: Need) -> None:
    """What the job waits for: the evidence, then the commands that continue it."""
    now = _now()
    head = "Needs a person: " if need.person else "Waits for "
    if need.job_status is Status.RUNNING:
        head = "Running, and needs a person: "
    since = f" (for {render.span(now - need.since)})"
    console.print(render.text(f"{head}{need.what}{since}", "bold yellow" if need.person else ""))
    width = console.width - 14
    if need.step_key:
        called = f"{need.step_key}" + (f", generation {need.generation}" if need.generation else "")
        console.print(_line("step", called), soft_wrap=True)
    if need.effect:
        console.print(_line("effect", need.effect))
    if need.args is not None:
        # A person decides by these: show them completely.
        arguments = to_json(need.args) if need.person else render.short(need.args, max(width, 400))
        console.print(_line("arguments", arguments), soft_wrap=True)
        if need.person and need.args_digest:
            console.print(_line("digest", need.args_digest), soft_wrap=True)
    if need.key:
        console.print(_line("key", need.key))
    if need.due_at is not None:
        remaining = need.due_at - now
        due = f"{render.instant(need.due_at)}" + (
            f", in {render.span(remaining)}" if remaining > 0 else ", due now"
        )
        console.print(_line("until", due))
    for line in _evidence(need):
        console.print(_line(*line), soft_wrap=True)
    if need.commands:
        console.print(render.text("To continue, type one of:"))
    for command in need.commands:
        console.print(render.indent(render.text(command, "cyan")), soft_wrap=True)
        if "--not-happened" in command and need.allowed_at is not None and need.allowed_at > now:
            allowed = (
                f"allowed after {render.instant(need.allowed_at)}, in {render.span(need.allowed_at - now)}"
            )
            console.print(render.indent(render.text(allowed, "dim"), 6))
    if need.reason is WaitReason.RECONCILE and need.effect == Effect.UNSAFE:
        _show_declarations(console)


def _show_declarations(console: Console) -> None:
    """Side-effect classes that an undeclared call could declare."""
    console.print(
        render.text(
            "To let Holdfast recover this call by itself, declare its side effect in its @hf.tool or @hf.step:"
        ),
        soft_wrap=True,
    )
    for declared, means in _DECLARATIONS:
        console.print(render.indent(render.join_parts(render.text(declared, "cyan"), means)), soft_wrap=True)


_DECLARATIONS: Final = (
    ('effect="read_only"', "it changes nothing: run again"),
    ('effect="idempotent"', "sent again under the same idempotency key (`key: hf.Key`)"),
    ('effect="verifiable", probe=…', "the receiver is asked first whether it happened"),
)


def _evidence(need: Need) -> list[tuple[str, object]]:
    evidence = need.evidence
    if need.question_id:
        return [("question", need.question_id), ("schema", render.short(evidence, 400))]
    if isinstance(evidence, str):
        return [("reason", evidence), *_traceback(need.error)]
    if need.reason is WaitReason.DRIFT and isinstance(evidence, dict):
        rows: list[tuple[str, object]] = [("reason", evidence.get("why", ""))]
        rows += [("recorded", _call(call)) for call in evidence.get("recorded", ())]
        return [*rows, ("attempted", _call(evidence.get("attempted")))]
    if need.reason is WaitReason.STALLED and isinstance(evidence, dict):
        return [line for task in evidence.get("tasks", ()) for line in _task(task)]
    if isinstance(evidence, list):
        return _causes(evidence)
    return []


def _task(task: Any) -> list[tuple[str, object]]:
    """A task of a stalled job: the line of the author's code where it waits, then the frames that lead there."""
    if not isinstance(task, dict):
        return []
    frames = [line for line in task.get("stack", ()) if line != task.get("at")]
    return [
        ("task", task.get("task", "")),
        ("waits at", render.text(task.get("at", ""), "bold")),
        *(("", render.text(line, "dim")) for line in frames),
    ]


def _call(call: Any) -> str:
    if not isinstance(call, dict):
        return render.short(call, 200)
    args = (
        render.short(call["args"], 200)
        if "args" in call
        else f"arguments {str(call.get('args_digest'))[:12]}…"
    )
    return f"{call.get('step_key')}  {args}"


def _causes(causes: list[Any]) -> list[tuple[str, object]]:
    """All causes of a dead letter; a repeated traceback is shown once."""
    rows: list[tuple[str, object]] = []
    previous: list[str] = []
    for cause in causes:
        frames = format_traceback(cause.get("error")) if isinstance(cause, dict) else []
        again = bool(frames) and frames == previous
        head, *lines = _cause(cause)
        rows += [head, ("", render.text("same traceback", "dim"))] if again else [head, *lines]
        previous = frames or previous
    return rows


def _cause(cause: Any) -> list[tuple[str, object]]:
    """A failed attempt or a lost worker: when, on which worker, and the error with its traceback."""
    if not isinstance(cause, dict):
        return [("cause", render.text(render.short(cause, 300), "red"))]
    error, at, worker = cause.get("error"), cause.get("at"), cause.get("holder")
    where = [render.instant(at)] if isinstance(at, int) else []
    where += [f"on {short_name(str(worker))}"] if worker else []
    head = "  ".join([*where, str(cause.get("why", "")) if error is None else format_error(error)])
    return [("cause", render.text(head, "red")), *_traceback(error)]


def _now() -> int:
    return time.time_ns() // 1000
