"""Each test has a nats-server of its own, and may do to it what it wants."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.servers import NatsServer


@pytest.fixture
def server() -> Iterator[NatsServer]:
    with NatsServer() as running:
        yield running
