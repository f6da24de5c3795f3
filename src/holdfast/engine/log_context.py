"""What the code that runs here belongs to, for whoever writes it beside a line of a log. Nothing is decided by it.

A task inherits it from the task that started it, so it is true in a job's own code, too.
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
    """What is known: `job_id` and `fence` inside a run, `request_id` inside a request."""
    return _ABOUT.get()


@contextmanager
def about(**names: str | int) -> Iterator[None]:
    """In the block, lines of the log are about these as well."""
    token = _ABOUT.set({**_ABOUT.get(), **names})
    try:
        yield
    finally:
        _ABOUT.reset(token)
