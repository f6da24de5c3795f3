"""What every test shares: real servers, the reports at the end, and how hard Hypothesis tries."""

from __future__ import annotations

import os
import tempfile

import pytest
from hypothesis import settings

# Servers leave their tokens here, and not where those of the person who runs the tests are.
_STATE = tempfile.TemporaryDirectory(prefix="holdfast-state-")
os.environ["XDG_STATE_HOME"] = _STATE.name
os.environ.pop("HOLDFAST_API_KEY", None)

# Their assertions explain themselves like a test's own. Said here because nothing has imported them yet.
pytest.register_assert_rewrite("holdfast.testing.conformance")

pytest_plugins = [
    "pytester",
    "tests.support.fixtures.folders",
    "tests.support.fixtures.servers",
    "tests.support.plugins.tally",
    "tests.support.plugins.acceptance",
    "tests.support.plugins.long_first",
]

# No deadline: a loaded machine is slow, not wrong. `print_blob` lets anybody replay a failure from its printout.
settings.register_profile("quick", deadline=None, print_blob=True)
settings.register_profile("chaos", settings.get_profile("quick"), max_examples=2000)
settings.load_profile("quick")
