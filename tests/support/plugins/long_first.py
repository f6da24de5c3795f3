"""Run the longest tests first: no process is left with a test of minutes when the others have nothing more to do.

A test that says that it may take longer than the usual limit (`@pytest.mark.timeout`) is taken for a long one; the
longer the limit, the earlier it runs. All others stay in their random order.
"""

from __future__ import annotations

import pytest


def limit_of(item: pytest.Item) -> float:
    """How long it may take, if it says so."""
    mark = item.get_closest_marker("timeout")
    return float(mark.args[0]) if mark is not None and mark.args else 0.0


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    usual = float(config.getini("timeout") or 0)
    items.sort(key=lambda item: -limit if (limit := limit_of(item)) > usual else 0.0)
