"""Log output on stderr: lines for people, or one JSON object per line for machines.

    2026-11-16 10:02:11.482 WARNING holdfast.worker: job … was taken over  worker=vm:4711 job=job_01… fence=4294967299
    {"time":"2026-11-16T10:02:11.482Z","level":"warning","logger":"holdfast.worker","message":"…","job_id":"job_01…"}

The context of a line (`engine.log_context`) comes from where it is logged: the job and its fence inside a run, the
request id inside a request. Control sequences in a message are removed.
"""

from __future__ import annotations

import json
import logging
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any, Final, TextIO

import click

from holdfast.cli.output import plain
from holdfast.engine.log_context import get_context
from holdfast.errors import InvalidSetting
from holdfast.model.worker_identity import short_name

FORMATS: Final = ("text", "json")
LEVELS: Final = ("debug", "info", "warning", "error")
_SHORT: Final = {"job_id": "job", "request_id": "request"}

format_option = click.option(
    "--log-format",
    type=click.Choice(FORMATS),
    envvar="HOLDFAST_LOG_FORMAT",
    default="text",
    show_default=True,
    show_envvar=True,
    help="Log format: text for people, or one JSON object per line.",
)
level_option = click.option(
    "--log-level",
    type=click.Choice(LEVELS),
    envvar="HOLDFAST_LOG_LEVEL",
    default="info",
    show_default=True,
    show_envvar=True,
    help="Lowest level to log.",
)


class Log:
    """Log context of the process: the worker's name, once there is one."""

    def __init__(self) -> None:
        self.always: dict[str, str] = {}

    def set_worker(self, worker: str) -> None:
        self.always["worker"] = worker


@contextmanager
def logging_as(form: str, level: str, stream: TextIO | None = None) -> Iterator[Log]:
    """Configures logging of this process for the block."""
    if form not in FORMATS or level not in LEVELS:
        msg = f"there is no log format {form!r} with level {level!r}"
        raise InvalidSetting(msg, hint=f"Formats: {', '.join(FORMATS)}. Levels: {', '.join(LEVELS)}.")
    log, root = Log(), logging.getLogger()
    handler = logging.StreamHandler(sys.stderr if stream is None else stream)
    handler.setFormatter(Json(log) if form == "json" else Text(log))
    if level == "info":
        handler.addFilter(_is_news)
    handlers, before = root.handlers[:], root.level
    root.handlers[:] = [handler]
    root.setLevel(level.upper())
    try:
        yield log
    finally:
        root.handlers[:] = handlers
        root.setLevel(before)


def _is_news(record: logging.LogRecord) -> bool:
    """Filter: HTTP clients log every request at info level; those lines appear at debug level only."""
    return record.levelno > logging.INFO or not record.name.startswith(("httpx", "httpcore"))


class _Form(logging.Formatter):
    def __init__(self, log: Log) -> None:
        super().__init__()
        self._log = log

    def belongs(self, record: logging.LogRecord) -> dict[str, Any]:
        """Context fields of the line."""
        return {**self._log.always, **get_context(), **getattr(record, "about", {})}

    def trouble(self, record: logging.LogRecord) -> str:
        return self.formatException(record.exc_info) if record.exc_info else ""


class Json(_Form):
    def format(self, record: logging.LogRecord) -> str:
        line: dict[str, Any] = {
            "time": _instant(record).strftime("%Y-%m-%dT%H:%M:%S.%f")[:-3] + "Z",
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
            **self.belongs(record),
        }
        if trouble := self.trouble(record):
            line["error"] = trouble
        return json.dumps(line, ensure_ascii=True, default=str, separators=(",", ":"))


class Text(_Form):
    def format(self, record: logging.LogRecord) -> str:
        at = _instant(record).strftime("%Y-%m-%d %H:%M:%S.%f")[:-3]
        fields = self.belongs(record)
        if "worker" in fields:
            fields["worker"] = short_name(fields["worker"])
        about = "".join(f" {_SHORT.get(name, name)}={value}" for name, value in fields.items())
        line = f"{at} {record.levelname} {record.name}: {record.getMessage()}" + (about and f" {about}")
        trouble = self.trouble(record)
        return plain(line + (trouble and f"\n{trouble}"))


def _instant(record: logging.LogRecord) -> datetime:
    return datetime.fromtimestamp(record.created, UTC)
