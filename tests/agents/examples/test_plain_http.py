"""The agent in plain HTTP, killed at its work: another one finishes it, and there is one completion."""

from __future__ import annotations

import ast
import asyncio
import sys
from pathlib import Path

import pytest

from holdfast.client import RemoteClient
from tests.api.external_agents.place import ended, facts, processes
from tests.support.project import ROOT

EXAMPLE = ROOT / "examples/plain_http.py"
LINES_MAX = 40

pytestmark = pytest.mark.store("sqlite")


def test_it_needs_nothing_but_the_standard_library_and_few_lines() -> None:
    tree = ast.parse(EXAMPLE.read_text())
    imported = {name.name for node in ast.walk(tree) if isinstance(node, ast.Import) for name in node.names}
    imported |= {node.module or "" for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    assert {name.partition(".")[0] for name in imported} <= sys.stdlib_module_names
    assert len([line for line in EXAMPLE.read_text().splitlines() if line.strip()]) <= LINES_MAX


async def test_one_is_killed_and_another_finishes(volatile_folder: Path) -> None:
    with processes(volatile_folder) as there:
        await asyncio.to_thread(there.serve)
        told = {"HOLDFAST_API_URL": there.url, "HOLDFAST_API_KEY": there.token(), "LEASE_S": "3"}
        async with RemoteClient(there.url) as client:
            sent = await client.submit_work("Kelp grows fast. It is an alga.", "summarize")
            slow, _ = await asyncio.to_thread(
                there.start, str(EXAMPLE), "slow", said=f"claimed {sent.id}", WORK_S="600", **told
            )
            rival = await client.register_agent("rival", "test", capabilities=["summarize"])
            assert await client.claim_work(rival.guid, wait_seconds=5) == (), "its lease is kept"
            assert (await client.get_work(sent.id)).status == "assigned"
            there.kill(slow)
            quick, _ = await asyncio.to_thread(
                there.start, str(EXAMPLE), "quick", said=f"completed {sent.id}", **told
            )
            done = await ended(client, sent.id)
            seen = await facts(client, sent.id)
        assert done.result == {"summary": "Kelp grows fast"}
        assert (seen["job_claimed"], seen["job_completed"]) == (2, 1)
        assert quick.poll() is None, "it waits for more"
