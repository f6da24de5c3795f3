"""`holdfast trace`: the timeline of a job."""

from __future__ import annotations

import bisect
import re
import textwrap
from collections.abc import Iterator
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final

import click

from holdfast.api.job_records import EventView, Note, PlanView, Seam, SeamKind, Span, SpanKind, Trace
from holdfast.cli import render
from holdfast.cli.open_store import client_at
from holdfast.cli.options import json_option, store_option
from holdfast.cli.output import one_line, table, to_json, wait_for
from holdfast.engine.tracebacks import format_error, format_traceback, locate_error

if TYPE_CHECKING:
    from rich.console import Console
    from rich.text import Text

BAR_MIN: Final = 12
LABEL_MAX: Final = 36
SQUEEZE: Final = 0.3
"""Long gaps are drawn as this power of their length, so that short spans stay visible."""

OUTCOMES: Final = {
    "succeeded": "green",
    "happened": "green",
    "approved": "green",
    "answered": "green",
    "completed": "green",
    "over": "blue",
    "open": "cyan",
    "uncertain": "bold yellow",
    "failed": "red",
    "refused": "red",
    "fail": "red",
    "denied": "red",
    "not answered": "red",
    "cancelled": "dim",
    "given up": "dim",
    "skip": "dim",
    "not_happened": "dim",
}
_TOOL_SCOPE: Final = re.compile(r"run_tools#\d+|call-\d+#\d+")
SEAMS: Final = {
    SeamKind.TAKEOVER: "bold yellow",
    SeamKind.DEAD_LETTER: "bold red",
    SeamKind.PARKED: "bold red",
    SeamKind.STALLED: "bold red",
    SeamKind.REQUEUED: "yellow",
    SeamKind.CANCEL_REQUESTED: "yellow",
    SeamKind.ENDED: "bold",
}


@click.command()
@click.argument("job_id", metavar="ID")
@click.option("--events", is_flag=True, help="Show the journal, event by event.")
@click.option(
    "--steps", is_flag=True, help="List the step keys, which `fork`, `reconcile` and `approve` take."
)
@store_option
@json_option
def trace(job_id: str, where: str, *, events: bool, steps: bool, as_json: bool) -> None:
    """Show the timeline of a job, in the order of its journal: calls, workers, attempts, and what recovery did and why.

    A dotted bar is a read: its start is not recorded, so the bar begins at the earliest possible time.

    Example: holdfast trace job_06h57w4p2ksb3f1cqn8xv0zt6e
    """

    async def look() -> tuple[Trace, tuple[EventView, ...]]:
        async with client_at(where) as client:
            return await client.trace(job_id), await client.events(job_id) if events else ()

    life, journal = wait_for(look())
    if events:
        _show_events(journal, as_json=as_json)
    elif steps:
        rows = [
            (span.step_key, span.kind, span.name, span.outcome.replace("_", " "), span.seq)
            for span in sorted(life.spans, key=lambda span: span.seq)
        ]
        table(("step", "kind", "name", "outcome", "event"), rows, as_json=as_json)
    elif as_json:
        click.echo(to_json(life))
    else:
        draw(render.console(), life)


def _show_events(journal: tuple[EventView, ...], *, as_json: bool) -> None:
    if as_json:
        for event in journal:
            click.echo(to_json(event))
        return
    width = max(render.console().width - 45, 20)
    rows = [
        (event.seq, render.clock(event.at), event.type, render.short(event.body, width)) for event in journal
    ]
    table(("seq", "at", "type", "body"), rows, as_json=False)


# ── the timeline ──────────────────────────────────────────────────────────────────────────────────


class Axis:
    """The position of an instant on a bar of so many characters."""

    def __init__(self, life: Trace, width: int) -> None:
        ends = [span.end_at for span in life.spans if span.end_at is not None]
        starts = [span.start_at for span in life.spans]
        self._instants = sorted(
            {life.start_at, life.end_at, *ends, *starts, *(seam.at for seam in life.seams)}
        )
        gaps = [after - before for before, after in pairwise(self._instants)]
        self.squeezed = len(gaps) > 1 and max(gaps) * 2 > sum(gaps)
        places = [0.0]
        for gap in gaps:
            places.append(places[-1] + (gap**SQUEEZE if self.squeezed else gap))
        self._places = places
        self._width = width

    def at(self, instant: int) -> int:
        nth = min(bisect.bisect_left(self._instants, instant), len(self._places) - 1)
        return round(self._places[nth] / (self._places[-1] or 1) * (self._width - 1))


def draw(console: Console, life: Trace) -> None:
    """Draws the timeline, as wide as the terminal."""
    took = render.span(life.end_at - life.start_at)
    state = render.text(life.status, render.STYLES.get(life.status, ""))
    title = render.join_parts(render.text(life.job_id, "bold"), life.kind, state, render.text(took, "dim"))
    console.print(title, soft_wrap=True)
    labels = [_label(span) for span in life.spans]
    label = min(max(map(len, labels), default=0), LABEL_MAX, max(console.width // 3, 8))
    tail = 10 + max((len(_tail(span)) for span in life.spans), default=0)
    bar = console.width - label - tail - 4
    if bar < BAR_MIN:
        label, bar = max(label - (BAR_MIN - bar), 8), BAR_MIN
    axis = Axis(life, bar)
    scope: tuple[str, ...] = ()
    previous: list[str] = []
    for item in _in_order(life):
        if isinstance(item, Seam):
            _show_seam(console, item, life)
            frames = format_traceback(item.error)
            _show_traceback(console, ["  same traceback"] if frames and frames == previous else frames)
            previous = frames or previous
        elif isinstance(item, Note):
            _show_note(console, item.text)
        else:
            scopes = _named_scopes(item)
            for depth, name in _entered(scope, scopes):
                console.print(render.indent(render.text(name, "dim"), 2 + 2 * depth), no_wrap=True)
            scope = scopes
            console.print(_span_line(item, axis, label, bar, life.end_at), no_wrap=True, overflow="ellipsis")
            if place := locate_error(item.error):
                error = one_line(f"{format_error(item.error)}  {place}")
                console.print(render.indent(render.text(error, "red"), 6), soft_wrap=True)
    for plan in life.plans:
        _show_plan(console, plan)
    if axis.squeezed:
        console.print(render.text("not to scale: long waits are shortened", "dim"))


def _show_plan(console: Console, plan: PlanView) -> None:
    """The plan, node by node, including those not reached."""
    head = f"plan: {plan.done} of {len(plan.nodes)} done"
    console.print(render.text(head, "bold"))
    names = min(max((len(node.name) for node in plan.nodes), default=0), LABEL_MAX)
    tools = min(max((len(node.tool) for node in plan.nodes), default=0), LABEL_MAX)
    for node in plan.nodes:
        name, tool = _fitted(one_line(node.name), names), _fitted(one_line(node.tool), tools)
        line = render.join_parts(name, tool, render.text(node.state, OUTCOMES.get(node.state, "dim")))
        if node.after:
            line.append("  ").append_text(render.text(f"after {', '.join(node.after)}", "dim"))
        console.print(render.indent(line), soft_wrap=True)


def _in_order(life: Trace) -> Iterator[Seam | Span | Note]:
    """Seams, spans and notes in the order of the journal: a span at its first event, a note after what it explains."""
    items: list[tuple[int, int, Seam | Span | Note]] = [(seam.seq, 0, seam) for seam in life.seams]
    items += [(span.seq, 1, span) for span in life.spans]
    items += [(note.seq, 2, note) for note in life.notes]
    for _, _, item in sorted(items, key=lambda entry: entry[:2]):
        yield item


def _named_scopes(span: Span) -> tuple[str, ...]:
    """The scopes that the author's code names, without those that Holdfast makes for the tool calls of a model."""
    return tuple(name for name in span.scope if not _TOOL_SCOPE.fullmatch(name))


def _entered(before: tuple[str, ...], now: tuple[str, ...]) -> Iterator[tuple[int, str]]:
    """The scopes of a call that the call above it is not in, with their depth."""
    for depth, name in enumerate(now):
        if before[: depth + 1] != now[: depth + 1]:
            yield depth, name


def _show_seam(console: Console, seam: Seam, life: Trace) -> None:
    from rich.text import Text

    line = Text(render.clock(seam.at), "dim").append("  ")
    line.append_text(render.text(seam.text, SEAMS.get(seam.kind, "")))
    if seam.until is not None and seam.until > seam.at:
        line.append(f"  {render.span(seam.until - seam.at)}", "dim")
    elif seam is life.seams[-1] and not life.over:
        line.append(f"  {render.span(life.end_at - seam.at)} so far", "dim")
    console.print(line, soft_wrap=True)


def _show_traceback(console: Console, lines: list[str]) -> None:
    for line in lines:
        console.print(render.outline(line, "dim", 4), soft_wrap=True)


def _show_note(console: Console, note: str) -> None:
    from rich.text import Text

    lines = textwrap.wrap(one_line(note), max(console.width - 6, 20))
    for line, lead in zip(lines, ["    ↳ ", *["      "] * len(lines)], strict=False):
        console.print(Text(lead + line, "italic dim"), soft_wrap=True)


def _label(span: Span) -> str:
    depth = "  " * (len(_named_scopes(span)) + 1)
    again = f" (run {span.generation + 1})" if span.generation else ""
    last = span.step_key.rpartition("/")[2]
    return f"{depth}{last if last.startswith(f'{span.name}#') else span.name}{again}"


def _tail(span: Span) -> str:
    effect = "" if span.kind is SpanKind.READ or not span.effect else f" {span.effect}"
    tries = f" ×{len(span.sent_at)}" if len(span.sent_at) > 1 else ""
    return f"{span.outcome.replace('_', ' ')}{tries}{effect}{_used(span.usage)}"


def _span_line(span: Span, axis: Axis, label: int, bar: int, now: int) -> Text:
    from rich.text import Text

    style = OUTCOMES.get(span.outcome, "")
    name = render.text(_label(span).strip()).plain
    depth = len(_label(span)) - len(_label(span).lstrip())
    line = Text(_fitted(" " * depth + name, label), "" if span.kind is not SpanKind.READ else "dim")
    line.append("  ").append_text(_bar(span, axis, bar, now, style))
    end = now if span.end_at is None else span.end_at
    took = render.span(end - span.start_at)
    line.append(f" {'≤' if not span.start_known else ''}{took}".rjust(9), "dim")
    return line.append(" ").append_text(render.text(_tail(span), style))


def _bar(span: Span, axis: Axis, width: int, now: int, style: str) -> Text:
    from rich.text import Text

    first = axis.at(span.start_at)
    last = max(axis.at(now if span.end_at is None else span.end_at), first)
    cells = ["╌" if not span.start_known else "━"] * (last - first + 1)
    for sent_at in span.sent_at:  # where each attempt began
        cells[min(max(axis.at(sent_at) - first, 0), last - first)] = "┣"
    if span.end_at is None:
        cells[-1] = "→"
    bar = Text(" " * first).append("".join(cells), style)
    return bar.append(" " * (width - last - 1))


def _fitted(text: str, width: int) -> str:
    return text.ljust(width) if len(text) <= width else text[: width - 1] + "…"


def _used(usage: Any) -> str:
    """Tokens and cost of a model's answer."""
    if not isinstance(usage, dict) or usage.get("cached"):
        return ", from the response cache" if usage else ""
    tokens = f", {usage.get('input', 0):,} + {usage.get('output', 0):,} tokens"
    micros = usage.get("usd_micros")
    return f"{tokens}, cost unknown" if micros is None else f"{tokens}, ${micros / 1_000_000:.4f}"
