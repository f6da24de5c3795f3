"""Tracing: OpenTelemetry spans of what a process does. Enabled by `pip install 'holdfast[otel]'` and HOLDFAST_OTEL=1,
or by the usual variables of OpenTelemetry. Without them the library is not even imported.

    invoke_agent support             one run of a job, from its claim to its end, its suspension or its loss
    ├── chat claude-…                a request to a model
    └── execute_tool refund          a call's own code

Names are those of the GenAI conventions. The trace of a job is derived from its id, and the span of a run from its
fence: so all runs of a job are one trace, whichever workers ran it, and a run that took over links to the one that it
took over from. Replayed calls get no new spans. No input or output of a job is in a span: arguments, messages and
texts of errors stay in the journal.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

from holdfast.engine.durable_call import Owner
from holdfast.engine.recovery import SweepStats
from holdfast.engine.telemetry import SILENT, Telemetry, TimedOperation
from holdfast.errors import HoldfastError, InvalidSetting
from holdfast.model.append import Append
from holdfast.model.lease import Grant

if TYPE_CHECKING:
    from opentelemetry.trace import Span, Tracer, TracerProvider

SCOPE: Final = "holdfast"
_MEANT: Final = ("OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_TRACES_EXPORTER")
_TOKENS: Final = {
    "input": "gen_ai.usage.input_tokens",
    "output": "gen_ai.usage.output_tokens",
    "cache_read": "gen_ai.usage.cache_read.input_tokens",
    "cache_write": "gen_ai.usage.cache_creation.input_tokens",
}
_GOOD: Final = frozenset({"succeeded", "answered", "completed", "waiting", "pending", "cancelled"})


def is_wanted(environ: Mapping[str, str]) -> bool:
    """Whether the environment enables spans."""
    if environ.get("OTEL_SDK_DISABLED", "").lower() == "true":
        return False
    setting = environ.get("HOLDFAST_OTEL", "")
    if setting:
        return setting not in {"0", "false", "no"}
    return any(environ.get(name, "none") != "none" for name in _MEANT)


def add_spans(environ: Mapping[str, str], meter: Telemetry) -> Telemetry:
    """The meter, with spans beside it if the environment enables them."""
    if not is_wanted(environ):
        return meter
    spans = Spans(_find_provider(environ))
    return spans if meter is SILENT else CombinedTelemetry(meter, spans)


def _find_provider(environ: Mapping[str, str]) -> TracerProvider:
    """The application's own provider, if it has set one up; else one that exports to where the environment says."""
    try:
        from opentelemetry import trace
        from opentelemetry.sdk.resources import SERVICE_NAME, Resource
        from opentelemetry.sdk.trace import TracerProvider as Sdk
        from opentelemetry.sdk.trace.export import BatchSpanProcessor, ConsoleSpanExporter, SpanExporter

        current = trace.get_tracer_provider()
        if isinstance(current, Sdk):
            return current
        exporter: SpanExporter
        if environ.get("OTEL_TRACES_EXPORTER") == "console":
            exporter = ConsoleSpanExporter()
        else:
            from opentelemetry.exporter.otlp.proto.http.trace_exporter import (  # type: ignore[import-not-found,unused-ignore]
                OTLPSpanExporter,
            )

            exporter = OTLPSpanExporter()
    except ImportError as error:
        msg = "OpenTelemetry is asked for, and not installed"
        raise InvalidSetting(msg, hint="pip install 'holdfast[otel]', or HOLDFAST_OTEL=0.") from error
    provider = Sdk(resource=Resource.create({SERVICE_NAME: environ.get("OTEL_SERVICE_NAME", "holdfast")}))
    provider.add_span_processor(BatchSpanProcessor(exporter))
    trace.set_tracer_provider(provider)
    return provider


class Spans(Telemetry):
    """Makes spans of runs, calls and requests to models."""

    def __init__(self, provider: TracerProvider) -> None:
        from importlib.metadata import version

        self._tracer: Tracer = provider.get_tracer(SCOPE, version("holdfast"))
        self._ids = JobIds.of(self._tracer)

    def attempt(self, grant: Grant) -> TimedOperation:
        from opentelemetry.context import Context
        from opentelemetry.trace import Link, SpanContext, TraceFlags

        trace_id = trace_id_of(grant.namespace, grant.job_id)
        links = []
        if grant.takeover:
            # The lease was not released, so no other worker held the job in between.
            before = span_id_of(trace_id, grant.fence - 1)
            links.append(Link(SpanContext(trace_id, before, is_remote=True, trace_flags=TraceFlags(1))))
        attributes: dict[str, Any] = {
            "gen_ai.operation.name": "invoke_agent",
            "gen_ai.agent.name": grant.kind,
            "holdfast.job.id": grant.job_id,
            "holdfast.namespace": grant.namespace,
            "holdfast.queue": grant.queue,
            "holdfast.fence": grant.fence,
            "holdfast.takeover": grant.takeover,
        }
        if grant.session_id is not None:
            attributes["gen_ai.conversation.id"] = grant.session_id
        with self._ids.using(trace_id, span_id_of(trace_id, grant.fence)):
            span = self._tracer.start_span(
                f"invoke_agent {grant.kind}", context=Context(), links=links, attributes=attributes
            )
        return _SpanOperation(span, current=True)

    def call(self, owner: Owner, name: str, effect: str, step_key: str) -> TimedOperation:
        span = self._tracer.start_span(
            f"execute_tool {name}",
            attributes={
                "gen_ai.operation.name": "execute_tool",
                "gen_ai.tool.name": name,
                "gen_ai.tool.type": "function",
                "holdfast.job.id": owner.job_id,
                "holdfast.step.key": step_key,
                "holdfast.effect": str(effect),
            },
        )
        return _SpanOperation(span, current=True)

    def model(self, owner: Owner, model: str, step_key: str) -> TimedOperation:
        from opentelemetry.trace import SpanKind

        attributes: dict[str, Any] = {
            "gen_ai.operation.name": "chat",
            "gen_ai.provider.name": _provider_in(step_key),
            "gen_ai.request.model": model,
            "holdfast.job.id": owner.job_id,
            "holdfast.step.key": step_key,
        }
        span = self._tracer.start_span(f"chat {model}", kind=SpanKind.CLIENT, attributes=attributes)
        return _SpanOperation(span, current=False)


class _SpanOperation(TimedOperation):
    """A span in progress; a `current` one is the parent of spans that begin inside it."""

    __slots__ = ("_span", "_token")

    def __init__(self, span: Span, *, current: bool) -> None:
        from opentelemetry import context, trace

        self._span = span
        self._token = context.attach(trace.set_span_in_context(span)) if current else None

    def over(self, how: str, detail: Any = None) -> None:
        from opentelemetry import context
        from opentelemetry.trace import StatusCode

        self._span.set_attribute("holdfast.outcome", how)
        if how == "answered" and isinstance(detail, dict):
            for name, attribute in _TOKENS.items():
                if name in detail:
                    self._span.set_attribute(attribute, detail[name])
        if how not in _GOOD:
            self._span.set_attribute("error.type", _kind_of(detail) or how)
            self._span.set_status(StatusCode.ERROR)
        self._span.end()
        if self._token is not None:
            context.detach(self._token)


def _provider_in(step_key: str) -> str:
    """The provider of a request to a model, whose step is named after its wire format: `0/anthropic.messages#1`."""
    return step_key.rpartition("/")[2].partition("#")[0].partition(".")[0]


def _kind_of(detail: Any) -> str | None:
    """The kind of the error: never its text, which may contain anything."""
    if isinstance(detail, HoldfastError):
        return detail.code
    if isinstance(detail, Exception):
        return type(detail).__qualname__
    if isinstance(detail, dict):
        return str(detail.get("status") or detail.get("kind") or "") or None
    return None


class CombinedTelemetry(Telemetry):
    """Telemetry that reports to two others."""

    def __init__(self, first: Telemetry, second: Telemetry) -> None:
        self._first, self._second = first, second

    def commit(self, appends: Sequence[Append]) -> TimedOperation:
        return _CombinedOperation(self._first.commit(appends), self._second.commit(appends))

    def attempt(self, grant: Grant) -> TimedOperation:
        return _CombinedOperation(self._first.attempt(grant), self._second.attempt(grant))

    def call(self, owner: Owner, name: str, effect: str, step_key: str) -> TimedOperation:
        arguments = (owner, name, effect, step_key)
        return _CombinedOperation(self._first.call(*arguments), self._second.call(*arguments))

    def model(self, owner: Owner, model: str, step_key: str) -> TimedOperation:
        return _CombinedOperation(
            self._first.model(owner, model, step_key), self._second.model(owner, model, step_key)
        )

    def record_claims(self, grants: Sequence[Grant]) -> None:
        self._first.record_claims(grants)
        self._second.record_claims(grants)

    def record_refusal(self, error: HoldfastError) -> None:
        self._first.record_refusal(error)
        self._second.record_refusal(error)

    def record_replay(self) -> None:
        self._first.record_replay()
        self._second.record_replay()

    def record_cache_lookup(self, *, hit: bool) -> None:
        self._first.record_cache_lookup(hit=hit)
        self._second.record_cache_lookup(hit=hit)

    def record_unproven(self) -> None:
        self._first.record_unproven()
        self._second.record_unproven()

    def record_stall(self) -> None:
        self._first.record_stall()
        self._second.record_stall()

    def record_isolation(self, how: str) -> None:
        self._first.record_isolation(how)
        self._second.record_isolation(how)

    def record_sweep(self, stats: SweepStats) -> None:
        self._first.record_sweep(stats)
        self._second.record_sweep(stats)


class _CombinedOperation(TimedOperation):
    __slots__ = ("_first", "_second")

    def __init__(self, first: TimedOperation, second: TimedOperation) -> None:
        self._first, self._second = first, second

    def over(self, how: str, detail: Any = None) -> None:
        self._first.over(how, detail)
        self._second.over(how, detail)


def trace_id_of(namespace: str, job_id: str) -> int:
    """The trace of a job: the same for every worker that runs it."""
    digest = hashlib.sha256(f"holdfast trace\0{namespace}\0{job_id}".encode()).digest()
    return int.from_bytes(digest[:16]) or 1


def span_id_of(trace_id: int, fence: int) -> int:
    """The span of one run of a job."""
    digest = hashlib.sha256(f"holdfast run\0{trace_id:032x}\0{fence}".encode()).digest()
    return int.from_bytes(digest[:8]) or 1


class JobIds:
    """Span ids that are derived from a job: one trace for all its runs. All other ids are random. Replaces the id
    generator of our own tracer only."""

    def __init__(self, random: Any) -> None:
        self._random = random
        self._next: tuple[int, int] | None = None

    @classmethod
    def of(cls, tracer: Tracer) -> JobIds:
        """Makes the tracer take its ids from here."""
        ids = cls(getattr(tracer, "id_generator", None))
        if ids._random is not None:
            tracer.id_generator = ids  # type: ignore[attr-defined]  # the SDK's own tracers have one
        return ids

    @contextmanager
    def using(self, trace_id: int, span_id: int) -> Iterator[None]:
        """Gives these ids to the one span that begins in the block. No await is allowed there."""
        self._next = (trace_id, span_id)
        try:
            yield
        finally:
            self._next = None

    def generate_trace_id(self) -> int:
        return int(self._random.generate_trace_id()) if self._next is None else self._next[0]

    def generate_span_id(self) -> int:
        return int(self._random.generate_span_id()) if self._next is None else self._next[1]

    def is_trace_id_random(self) -> bool:
        return self._next is None
