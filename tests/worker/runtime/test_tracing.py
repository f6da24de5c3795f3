"""Spans: one trace for a job whoever drives it, the names of the GenAI conventions, nothing for what is replayed."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind, StatusCode

import holdfast as hf
from holdfast.engine.telemetry import SILENT, Telemetry
from holdfast.errors import InvalidSetting
from holdfast.model.ids import RandomIds
from holdfast.model.jobs import JobDraft
from holdfast.model.time import MINUTE
from holdfast.runtime import open_store, tracing
from holdfast.runtime.process import Process, open_process
from holdfast.runtime.tracing import CombinedTelemetry, Spans, add_spans, is_wanted, span_id_of, trace_id_of
from holdfast.server.metrics.meter import Metrics
from holdfast.store.clock import VirtualClock
from holdfast.store.ports.leases import ClaimRequest

pytestmark = pytest.mark.store("sqlite")


class Film:
    """What was drawn, in the order in which it ended."""

    def __init__(self) -> None:
        self._kept = InMemorySpanExporter()
        self.provider = TracerProvider()
        self.provider.add_span_processor(SimpleSpanProcessor(self._kept))

    @property
    def spans(self) -> list[ReadableSpan]:
        return list(self._kept.get_finished_spans())

    def named(self, name: str) -> list[ReadableSpan]:
        return [span for span in self.spans if span.name == name]

    def one(self, name: str) -> ReadableSpan:
        (span,) = self.named(name)
        return span


def told(span: ReadableSpan) -> dict[str, Any]:
    return dict(span.attributes or {})


def id_of(span: ReadableSpan) -> int:
    assert span.context is not None
    return int(span.context.span_id)


@asynccontextmanager
async def working(app: hf.App, folder: Path, meter: Telemetry) -> AsyncIterator[Process]:
    process = await open_process(app.programs(), f"sqlite:///{folder / 'h.db'}", meter=meter)
    try:
        yield process
    finally:
        await process.close()


async def test_a_run_its_calls_and_its_models(volatile_folder: Path) -> None:
    app, film = hf.App(), Film()
    inside: list[int] = []
    llm = hf.llm(["It is known."])

    @app.tool(effect="read_only")
    async def look(page: str) -> str:
        inside.append(trace.get_current_span().get_span_context().span_id)
        return page

    @app.agent
    async def report(page: str) -> str:
        await look(page)
        return (await llm.ask([hf.user("what is known?")])).text

    async with working(app, volatile_folder, Spans(film.provider)) as process:
        job_id = await process.start(JobDraft(kind="report", input={"page": "secret-page"}))
        assert await process.result(job_id) == "It is known."
    run, call, chat = (
        film.one("invoke_agent report"),
        film.one("execute_tool look"),
        film.named("chat script"),
    )
    chat = chat or [span for span in film.spans if span.name.startswith("chat ")]
    trace_id = trace_id_of("default", job_id)
    assert {span.context.trace_id for span in film.spans if span.context} == {trace_id}
    assert run.parent is None
    assert call.parent is not None
    assert call.parent.span_id == chat[0].parent.span_id == id_of(run)  # type: ignore[union-attr]
    assert inside == [id_of(call)], "whatever the tool draws is below its call"
    assert (run.kind, call.kind, chat[0].kind) == (SpanKind.INTERNAL, SpanKind.INTERNAL, SpanKind.CLIENT)
    expected = {
        "gen_ai.operation.name": "invoke_agent",
        "gen_ai.agent.name": "report",
        "holdfast.job.id": job_id,
        "holdfast.outcome": "completed",
        "holdfast.takeover": False,
    }
    assert expected.items() <= told(run).items()
    expected = {
        "gen_ai.operation.name": "execute_tool",
        "gen_ai.tool.name": "look",
        "gen_ai.tool.type": "function",
        "holdfast.effect": "read_only",
        "holdfast.step.key": "0/look#1",
        "holdfast.outcome": "succeeded",
    }
    assert expected.items() <= told(call).items()
    asked = told(chat[0])
    assert (asked["gen_ai.operation.name"], asked["gen_ai.provider.name"]) == ("chat", "scripted")
    assert asked["gen_ai.request.model"] in chat[0].name
    assert asked["gen_ai.usage.output_tokens"] > 0
    assert "secret-page" not in "".join(span.to_json() for span in film.spans), "no arguments in spans"


async def test_what_is_replayed_is_not_drawn_again(volatile_folder: Path) -> None:
    app, film = hf.App(), Film()
    looked: list[str] = []

    @app.tool(effect="read_only")
    async def look(page: str) -> str:
        looked.append(page)
        if len(looked) == 2:
            raise LookupError("the secret of page two")
        return page

    @app.agent
    async def twice(page: str) -> str:
        await look("first")
        return await look(page)

    async with working(app, volatile_folder, Spans(film.provider)) as process:
        job_id = await process.start(JobDraft(kind="twice", input={"page": "p"}))
        assert await process.result(job_id) == "p"
    first, second = film.named("invoke_agent twice")
    calls = film.named("execute_tool look")
    assert [told(call)["holdfast.outcome"] for call in calls] == ["succeeded", "failed", "succeeded"]
    assert [call.parent.span_id for call in calls if call.parent] == [
        id_of(first),
        id_of(first),
        id_of(second),
    ]
    assert (calls[1].status.status_code, told(calls[1])["error.type"]) == (StatusCode.ERROR, "LookupError")
    assert "the secret" not in calls[1].to_json()
    assert {span.context.trace_id for span in film.spans if span.context} == {trace_id_of("default", job_id)}


async def test_a_takeover_links_to_whom_it_took_over_from(volatile_folder: Path) -> None:
    film = Film()
    spans, clock = Spans(film.provider), VirtualClock(1_000_000)
    store = await open_store(f"sqlite:///{volatile_folder / 'h.db'}", clock=clock, ids=RandomIds())
    try:
        job_id = (await store.jobs.submit(JobDraft(kind="work"))).job_id
        for worker in ("ant", "bee"):
            (grant,) = await store.leases.claim(
                ClaimRequest(worker=worker, token=worker, queues=("default",))
            )
            with film.provider.get_tracer("somebody else").start_as_current_span("whatever runs around it"):
                spans.attempt(grant).over("lost" if worker == "ant" else "completed")
            clock.advance(2 * MINUTE)
    finally:
        await store.close()
    ant, bee = film.named("invoke_agent work")
    assert [(link.context.trace_id, link.context.span_id) for link in bee.links] == [
        (trace_id_of("default", job_id), id_of(ant))
    ]
    assert not ant.links
    assert ant.parent is None, "its trace is the job's, whoever was at work here"
    assert (ant.status.status_code, bee.status.status_code) == (StatusCode.ERROR, StatusCode.UNSET)
    assert trace.get_current_span().get_span_context().is_valid is False, "nothing is left behind"


def test_ids_follow_from_the_job() -> None:
    assert trace_id_of("a", "job_1") == trace_id_of("a", "job_1") != trace_id_of("b", "job_1")
    assert 0 < trace_id_of("a", "job_1") < 2**128
    assert len({span_id_of(7, fence) for fence in range(100)}) == 100


def test_ids_of_others_stay_random() -> None:
    film = Film()
    Spans(film.provider)
    other = film.provider.get_tracer("somebody else")
    first, second = other.start_span("a"), other.start_span("b")
    assert first.get_span_context().trace_id != second.get_span_context().trace_id
    assert type(film.provider.id_generator).__name__ == "RandomIdGenerator"


async def test_two_may_watch(volatile_folder: Path) -> None:
    app, film, metrics = hf.App(), Film(), Metrics()

    @app.agent
    async def quick() -> str:
        return "done"

    async with working(app, volatile_folder, CombinedTelemetry(metrics, Spans(film.provider))) as process:
        await process.result(await process.start(JobDraft(kind="quick", input={})))
    assert film.one("invoke_agent quick").end_time is not None
    assert 'holdfast_attempts_total{outcome="completed"} 1.0' in metrics.text().decode()
    hooks = {name for name in vars(Telemetry) if not name.startswith("_")}
    assert hooks <= set(vars(CombinedTelemetry)), "both hear everything"


@pytest.mark.parametrize(
    "environ, wanted",
    [
        ({}, False),
        ({"HOLDFAST_OTEL": "1"}, True),
        ({"HOLDFAST_OTEL": "0", "OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:4318"}, False),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:4318"}, True),
        ({"OTEL_TRACES_EXPORTER": "none"}, False),
        ({"OTEL_TRACES_EXPORTER": "otlp"}, True),
        ({"HOLDFAST_OTEL": "1", "OTEL_SDK_DISABLED": "true"}, False),
    ],
)
def test_the_environment_says_whether(environ: dict[str, str], wanted: bool) -> None:
    assert is_wanted(environ) is wanted
    if not wanted:
        assert add_spans(environ, SILENT) is SILENT


def test_an_exporter_that_is_not_there_is_said_plainly(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "opentelemetry.exporter.otlp.proto.http.trace_exporter", None)
    with pytest.raises(InvalidSetting, match="not installed") as refusal:
        tracing._find_provider({"HOLDFAST_OTEL": "1"})
    assert "holdfast[otel]" in refusal.value.hint


def test_nothing_is_imported_unasked() -> None:
    script = (
        "import sys, holdfast, holdfast.runtime.process, holdfast.cli.worker\n"
        "print([name for name in sys.modules if name.startswith('opentelemetry')])"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_a_worker_draws_where_the_environment_says(tmp_path: Path) -> None:
    """A real process with the console exporter: spans come out at its end."""
    (tmp_path / "app.py").write_text(
        "import holdfast as hf\n\n@hf.agent\nasync def quick(name: str) -> str:\n    return name\n"
    )
    spec = tmp_path / "job.json"
    spec.write_text('{"kind": "quick", "input": {"name": "x"}}')
    done = subprocess.run(
        [sys.executable, "-c", "import asyncio, app; print(asyncio.run(app.quick('x')))"],
        cwd=tmp_path,
        env={
            "PATH": "",
            "PYTHONPATH": ":".join(sys.path),
            "HOLDFAST_OTEL": "1",
            "OTEL_TRACES_EXPORTER": "console",
        },
        capture_output=True,
        text=True,
        check=True,
    )
    assert '"name": "invoke_agent quick"' in done.stdout
    assert '"service.name": "holdfast"' in done.stdout
