"""The pytest plugin: installed with Holdfast, and inactive until a test uses one of its fixtures.

    @pytest.mark.survives
    def test_the_refund(survives):
        survives(support, "where is order 42?", effects=lambda: bank.refunds, reset=bank.clear)

`survives` is `survives_crashes`. In a test with the mark it only runs the agent without kills, which is quick, unless
pytest runs with `--holdfast-kill=every`; so a slow enumeration can be among quick tests. `holdfast_app` is an
application on a SQLite file of its own, `virtual_clock` a clock for `running(app, clock=virtual_clock)`.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from holdfast.runtime.app import App
    from holdfast.testing.survival import Survival
    from holdfast.testing.time_skipping import TimeSkippingClock

KILLS = ("never", "every", "twice")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.getgroup("holdfast").addoption(
        "--holdfast-kill",
        choices=KILLS,
        default=None,
        help="where `survives` kills agents: nowhere, at every crash point, or at every one and again in the recovery "
        "(default: never in tests marked `survives`, every in others)",
    )


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line(
        "markers", "survives: kills agents only when asked to, with --holdfast-kill=every"
    )


@pytest.fixture
def survives(request: pytest.FixtureRequest) -> Callable[..., Survival]:
    """`survives_crashes`, as thorough as `--holdfast-kill` says."""
    from holdfast.testing.survival import survives_crashes

    marked = request.node.get_closest_marker("survives") is not None
    kill: Any = request.config.getoption("--holdfast-kill") or ("never" if marked else "every")
    return functools.partial(survives_crashes, kill=kill)


@pytest.fixture
def virtual_clock() -> TimeSkippingClock:
    """A clock that skips the time in which all jobs sleep, and moves by hand: `virtual_clock.advance("1h")`."""
    from holdfast.store.clock import SystemClock
    from holdfast.testing.time_skipping import TimeSkippingClock

    return TimeSkippingClock(SystemClock())


@pytest.fixture
def holdfast_app(tmp_path: Path) -> App:
    """An application on a SQLite file of its own."""
    from holdfast.runtime.app import App

    return App(store=f"sqlite:///{tmp_path / 'holdfast.db'}")
