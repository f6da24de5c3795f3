"""Test kit: for authors of agents (crashes, time, cassettes) and for authors of stores (`conformance`).

    from holdfast.testing import running, survives_crashes

    survives_crashes(support, "where is order 42?")       # killed at every crash point: the same result, nothing twice

    async with running(app) as process:                   # an application in a test: its sleeps pass at once
        assert await remind("Ada") == "reminded"

    await record(job, "support.json")                     # record a finished job in a file …
    await replay_cassette(app, "support.json")            # … and replay it with the current code

`docs/testing.md` describes it. The names are loaded when they are first used.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from holdfast.testing.app_environment import AppEnvironment, running
    from holdfast.testing.cassette import Drifted, record, replay_cassette
    from holdfast.testing.survival import DidNotSurvive, Survival, survives_crashes, survives_crashes_async
    from holdfast.testing.time_skipping import TimeSkippingClock

_WHERE: Final = {
    "holdfast.testing.cassette": ("Drifted", "record", "replay_cassette"),
    "holdfast.testing.time_skipping": ("TimeSkippingClock",),
    "holdfast.testing.app_environment": ("AppEnvironment", "running"),
    "holdfast.testing.survival": (
        "DidNotSurvive",
        "Survival",
        "survives_crashes",
        "survives_crashes_async",
    ),
}
_MODULE_OF: Final = {name: module for module, names in _WHERE.items() for name in names}

__all__ = [
    "AppEnvironment",
    "DidNotSurvive",
    "Drifted",
    "Survival",
    "TimeSkippingClock",
    "record",
    "replay_cassette",
    "running",
    "survives_crashes",
    "survives_crashes_async",
]


def __getattr__(name: str) -> Any:
    if name not in _MODULE_OF:
        msg = f"module 'holdfast.testing' has no attribute {name!r}"
        raise AttributeError(msg)
    value = getattr(importlib.import_module(_MODULE_OF[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
