"""Ids of spans that are made up on purpose: one trace for all runs of a job. All others are random, as ever."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from opentelemetry.trace import Tracer


class JobIds:
    """Stands where a tracer asks for ids; only our own tracer does so."""

    def __init__(self, random: Any) -> None:
        self._random = random
        self._next: tuple[int, int] | None = None

    @classmethod
    def of(cls, tracer: Tracer) -> JobIds:
        """The tracer takes its ids from here from now on."""
        ids = cls(getattr(tracer, "id_generator", None))
        if ids._random is not None:
            tracer.id_generator = ids  # type: ignore[attr-defined]  # the SDK's own tracers have one
        return ids

    @contextmanager
    def using(self, trace_id: int, span_id: int) -> Iterator[None]:
        """The one span that begins in the block has these ids. Nothing is awaited there."""
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
