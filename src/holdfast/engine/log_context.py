"""Log context: the job or request that the running code belongs to, for lines of the log. No decision depends on it.

A task inherits it from the task that started it, so it is also set in a job's own code.
"""

from __future__ import annotations

import contextvars
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from types import MappingProxyType
from typing import Final

_ABOUT: Final[contextvars.ContextVar[Mapping[str, str | int]]] = contextvars.ContextVar(
    "holdfast_about", default=MappingProxyType({})
)


def get_context() -> Mapping[str, str | int]:
    """The current context: `job_id` and `fence` inside a run, `request_id` inside a request."""
    return _ABOUT.get()


@contextmanager
def add_context(**names: str | int) -> Iterator[None]:
    """Adds these to the context of log lines in the block."""
    token = _ABOUT.set({**_ABOUT.get(), **names})
    try:
        yield
    finally:
        _ABOUT.reset(token)
