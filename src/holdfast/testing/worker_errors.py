"""Collects errors that workers only log, for a test."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager

from holdfast.errors import Unavailable


class WorkerErrors(logging.Handler):
    """Log handler: keeps errors, except those of an unavailable store."""

    def __init__(self) -> None:
        super().__init__()
        self.errors: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        error = record.exc_info[1] if record.exc_info else None
        if error is not None and not isinstance(error, Unavailable):
            self.errors.append(f"{record.getMessage()} {error!r}")

    @contextmanager
    def listening(self) -> Iterator[None]:
        """Collect errors while the block runs."""
        log = logging.getLogger("holdfast.worker")
        propagated, log.propagate = log.propagate, False
        log.addHandler(self)
        try:
            yield
        finally:
            log.removeHandler(self)
            log.propagate = propagated
