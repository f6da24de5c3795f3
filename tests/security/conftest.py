"""The rules of a process about secrets are its own; a test gives them back as they were."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest

from holdfast.agents import secrets
from holdfast.model import redaction
from tests.api.server.conftest import backend
from tests.cli.conftest import desk
from tests.support.fixtures.stores import postgres_template

__all__ = ["backend", "desk", "postgres_template"]


@pytest.fixture(autouse=True)
def own_rules() -> Iterator[None]:
    before, records = redaction.set_redactor(redaction.Redactor()), logging.getLogRecordFactory()
    yield
    redaction.set_redactor(before)
    secrets.use_secrets()
    logging.setLogRecordFactory(records)
