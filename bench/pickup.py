"""Holdfast with its worker in another process: a client submits, the worker drives, the client reads the result.

Imported by both: the worker as the application, the benchmark as a contestant.
"""

from __future__ import annotations

import asyncio
import os
import sys
from typing import Any

import holdfast as hf
from bench.contest import Contestant
from bench.material import RESULT
from holdfast.client.in_process import EmbeddedClient
from holdfast.model.ids import RandomIds
from holdfast.store.clock import SystemClock

app = hf.App(os.environ.get("HOLDFAST_STORE", "memory:"))


@app.tool(effect="read_only")
async def fetch(number: int) -> dict[str, Any]:
    return {**RESULT, "status": number}


@app.agent
async def one_step(number: int) -> int:
    return int((await fetch(number))["status"])


class Pickup(Contestant):
    """One step, and a worker that has nothing else to do."""

    name = "holdfast, submit to result"

    async def open(self) -> None:
        self.store = await self.place.open_store()
        self.client = EmbeddedClient(self.store, SystemClock(), RandomIds())
        self.worker = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "holdfast", "worker", "bench.pickup:app", "--log-level", "warning"),
            env={**os.environ, "HOLDFAST_STORE": self.place.address},
            stderr=asyncio.subprocess.DEVNULL,
        )

    async def operation(self, number: int) -> None:
        submitted = await self.client.submit("one_step", {"number": number})
        ended = await self.client.result(submitted.job_id)
        assert ended.output == number

    async def close(self) -> None:
        self.worker.terminate()
        await self.worker.wait()
        await self.store.close()
