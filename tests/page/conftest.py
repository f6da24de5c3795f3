"""A real browser, a real API, real workers. `make test-ui` brings what is needed; nothing else collects this folder.

Playwright runs a loop of its own in this thread, so no fixture here may be a coroutine: what has to be awaited is
awaited in another thread (`elsewhere`).
"""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Callable, Coroutine, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from tests.page.browser_page import Watched
from tests.page.processes import Town
from tests.support.fixtures.servers import Template
from tests.support.fixtures.store_addresses import where
from tests.support.fixtures.stores import postgres_template
from tests.support.servers import PostgresServer

__all__ = ["postgres_template", "where"]

_NEEDED = ("HOLDFAST_TEST_CHROMIUM", "HOLDFAST_TEST_PLAYWRIGHT")
if missing := [name for name in _NEEDED if name not in os.environ]:
    raise pytest.UsageError(f"{missing[0]} is not set: run these tests by `make test-ui`")
sys.path.append(os.environ["HOLDFAST_TEST_PLAYWRIGHT"])

ARGUMENTS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1",
]
STORES = ["sqlite", "postgres"]

Elsewhere = Callable[[Coroutine[Any, Any, Any]], Any]


@pytest.fixture(scope="session")
def elsewhere() -> Iterator[Elsewhere]:
    """Runs a coroutine in another thread, in a loop that all of them share, and gives what it returns."""
    with ThreadPoolExecutor(1) as thread:
        runner = thread.submit(asyncio.Runner).result()
        yield lambda work: thread.submit(runner.run, work).result()
        thread.submit(runner.close).result()


@pytest.fixture(scope="session")
def browser() -> Iterator[Any]:
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(
            executable_path=os.environ["HOLDFAST_TEST_CHROMIUM"], args=ARGUMENTS
        )
        yield chromium
        chromium.close()


@pytest.fixture
def postgres_database(
    postgres_server: PostgresServer, postgres_template: Template, elsewhere: Elsewhere
) -> Iterator[str]:
    """The address of a database that only this test has; made in the other thread."""

    async def prepared() -> str:
        await postgres_server.until_answers()
        return await postgres_server.template(postgres_template.name, postgres_template.prepare)

    fresh = postgres_server.fresh_database(elsewhere(prepared()))
    yield elsewhere(_entered(fresh))
    elsewhere(_left(fresh))


async def _entered(context: Any) -> Any:
    return await context.__aenter__()


async def _left(context: Any) -> None:
    await context.__aexit__(None, None, None)


@pytest.fixture
def store(request: pytest.FixtureRequest) -> str:
    """SQLite, unless the test is for both."""
    return str(getattr(request, "param", "sqlite"))


@pytest.fixture
def town(where: str, tmp_path: Path) -> Iterator[Town]:
    """The API over a store of the test's own; workers are the test's to start and to kill."""
    one = Town(where, tmp_path)
    try:
        yield one
    finally:
        one.close()


@pytest.fixture
def watched(browser: Any, town: Town) -> Iterator[Watched]:
    """A page in a browser of its own that has not been anywhere; at the end nothing may have gone wrong on it."""
    context = browser.new_context(viewport={"width": 1280, "height": 900}, reduced_motion="reduce")
    one = Watched(context, town.url)
    yield one
    left = list(dict.fromkeys(one.unforgiven()))
    context.close()
    assert not left, "\n".join(left)


@pytest.fixture
def page(watched: Watched) -> Any:
    return watched.page
