"""Crashes on order: a process that dies at a named point, for people who want to see recovery with their own eyes.

    HOLDFAST_TEST_CRASH_AFTER_TOOL=send_email           which tool
    HOLDFAST_TEST_CRASH_STAGE=after_intent_before_call  which point; without it, right after the tool succeeded
    HOLDFAST_TEST_CRASH_MATCH=raw|slug|any              how names are compared

The process ends with status 137 and cleans nothing up, as after kill -9. `holdfast doctor --crash-points` lists the
points. The spelling UA_TEST_… is accepted for every variable, and …_CRASH_AFTER_STAGE for the stage.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable, Mapping
from typing import Final

from holdfast.engine.points import Point, Points, nothing
from holdfast.errors import InvalidSetting

STATUS: Final = 137
_PREFIXES: Final = ("HOLDFAST_TEST_", "UA_TEST_")
_MATCHES: Final = ("raw", "slug", "any")


def points_of(environ: Mapping[str, str], die: Callable[[str], None] | None = None) -> Points:
    """What the environment orders; nothing, if it orders nothing."""
    tool = _named(environ, "CRASH_AFTER_TOOL")
    if tool is None:
        return nothing
    stage = _stage(_named(environ, "CRASH_STAGE") or _named(environ, "CRASH_AFTER_STAGE"))
    match = _named(environ, "CRASH_MATCH") or "raw"
    if match not in _MATCHES:
        msg = f"HOLDFAST_TEST_CRASH_MATCH={match!r} is not known"
        raise InvalidSetting(msg, hint=f"Use one of {', '.join(_MATCHES)}.")
    end = _die if die is None else die

    def reached(point: Point, name: str) -> None:
        if point is stage and is_meant(tool, name, match):
            end(f"{name} {point}")

    return reached


def is_meant(wanted: str, name: str, match: str) -> bool:
    """Whether this tool is the one. `raw` compares names, or a server's tool by its last part; `slug` ignores case and
    everything that is neither letter nor digit."""
    by_name = wanted in {name, name.rpartition("__")[2]} or wanted.rpartition("__")[2] == name
    by_slug = _slug(wanted) in {_slug(name), _slug(name.rpartition("__")[2])}
    return {"raw": by_name, "slug": by_slug, "any": by_name or by_slug}[match]


def _slug(name: str) -> str:
    return re.sub(r"[^a-z0-9]+", "_", name.lower()).strip("_")


def _stage(text: str | None) -> Point:
    if text is None:
        return Point.AFTER_SUCCESS
    try:
        return Point(text)
    except ValueError:
        msg = f"HOLDFAST_TEST_CRASH_STAGE={text!r} is no crash point"
        raise InvalidSetting(msg, hint=f"Use one of {', '.join(Point)}.") from None


def _named(environ: Mapping[str, str], name: str) -> str | None:
    return next((environ[prefix + name] for prefix in _PREFIXES if environ.get(prefix + name)), None)


def _die(where: str) -> None:
    sys.stderr.write(f"holdfast: dies here as ordered: {where}\n")
    sys.stderr.flush()
    os._exit(STATUS)
