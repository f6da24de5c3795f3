"""Log redaction: sets the redaction rules of this process when a store is opened, and redacts its log lines.

HOLDFAST_REDACT names the rules: some of `values`, `shapes`, `headers` and `fields`, with commas between; the first
three, if it is not set; `none` for none. Every process of one deployment should have the same rules and the same
secrets: the digest of a call is computed from its redacted arguments.
"""

from __future__ import annotations

import logging
import os
import sys
import traceback
from collections.abc import Mapping
from types import TracebackType
from typing import Any, Final
from urllib.parse import urlsplit

from holdfast.agents.secrets import find_secret_values
from holdfast.errors import InvalidSetting
from holdfast.model import redaction
from holdfast.model.redaction import redact

SETTING: Final = "HOLDFAST_REDACT"
_RULES: Final = frozenset({"values", "shapes", "headers", "fields"})
_USUAL: Final = "values,shapes,headers"
_LOGGERS: Final = ("holdfast", "asyncio", "uvicorn")


def install_redaction(address: str = "", environment: Mapping[str, str] | None = None) -> None:
    """Sets the rules of this process from its environment, also for its log. May be called again."""
    environment = os.environ if environment is None else environment
    rules = _parse_rules(environment.get(SETTING, ""))
    before = [(name, value) for value, name in redaction.get_redactor().values.items()]
    values = [*find_secret_values(), *_find_password(address), *before]
    redaction.set_redactor(
        redaction.Redactor(
            values if "values" in rules else (),
            shapes=redaction.SHAPES if "shapes" in rules else (),
            fields=redaction.FIELDS if "fields" in rules else frozenset(),
            headers=redaction.HEADERS if "headers" in rules else frozenset(),
        )
    )
    if not isinstance(logging.getLogRecordFactory(), _RecordFactory):
        logging.setLogRecordFactory(_RecordFactory(logging.getLogRecordFactory()))


def _parse_rules(setting: str) -> frozenset[str]:
    names = frozenset(word.strip() for word in (setting or _USUAL).lower().split(",") if word.strip())
    if names == {"none"}:
        return frozenset()
    if unknown := names - _RULES:
        msg = f"{SETTING} names {', '.join(sorted(unknown))}, which is no rule"
        raise InvalidSetting(msg, hint=f"Name some of {', '.join(sorted(_RULES))}, or none.")
    return names


def _find_password(address: str) -> list[tuple[str, str]]:
    """The password in a store's address."""
    try:
        password = urlsplit(address).password
    except ValueError:
        return []
    return [("store_password", password)] if password else []


class _RecordFactory:
    """Makes log records of Holdfast, and of the libraries it runs on, without secrets: text, arguments and
    traceback."""

    def __init__(self, inner: Any) -> None:
        self._inner = inner

    def __call__(self, *args: Any, **options: Any) -> logging.LogRecord:
        record: logging.LogRecord = self._inner(*args, **options)
        if not record.name.startswith(_LOGGERS):
            return record
        try:
            message = record.getMessage()
        except Exception:  # a text that does not match its arguments: logging reports it itself
            return record
        if (clean := redact(message)) != message:
            record.msg, record.args = clean, None
        if record.exc_info and record.exc_info[0] is not None:
            text = "".join(traceback.format_exception(*record.exc_info)).rstrip("\n")
            if (clean := redact(text)) != text:
                record.exc_text = clean
        return record


def write_traceback(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    """Writes a traceback to stderr without secrets, for `sys.excepthook`: a crash could show them like any log line."""
    sys.stderr.write(redact("".join(traceback.format_exception(kind, error, trace))))
