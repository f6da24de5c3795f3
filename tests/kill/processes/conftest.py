"""Databases, a receiver and a stage for applications that are killed."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.kill.processes.provider import Provider, providing
from tests.kill.processes.receiver import Receiver, serving
from tests.kill.processes.stage import Stage, opened
from tests.support.fixtures.store_addresses import where
from tests.support.fixtures.stores import postgres_template

__all__ = ["postgres_template", "where"]


@pytest.fixture(params=["sqlite", "postgres"])
def store(request: pytest.FixtureRequest) -> str:
    """The store that `where` is the address of."""
    return str(request.param)


@pytest.fixture
async def receiver() -> AsyncIterator[Receiver]:
    async with serving() as receiver:
        yield receiver


@pytest.fixture
async def provider() -> AsyncIterator[Provider]:
    async with providing() as provider:
        yield provider


@pytest.fixture
async def stage(volatile_folder: Path, where: str, receiver: Receiver) -> AsyncIterator[Stage]:
    stage = await opened(volatile_folder, where, receiver)
    try:
        yield stage
    finally:
        await stage.close()
