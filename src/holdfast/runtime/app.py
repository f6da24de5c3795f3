"""An application: what it declares, where its jobs are kept, and who drives them when it is simply called."""

from __future__ import annotations

import asyncio
import os
import weakref
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Literal

from holdfast.agents.catalogue import Catalogue
from holdfast.engine.task_scopes import create_detached_task
from holdfast.errors import InvalidSetting
from holdfast.runtime.process import Process, opened
from holdfast.store import address


class App(Catalogue):
    """Agents and tools over one store.

    `store` is an address (`sqlite:///file.db`, `postgresql://…`, `memory:`); without one it is `HOLDFAST_STORE`, or a
    SQLite file in the working directory. `durability="strict"` waits for the disk after each step; without it only
    what leaves the job does (an effect, an answer, the end), and a crash takes back nothing that anybody has seen.
    """

    def __init__(
        self,
        store: str | None = None,
        *,
        concurrency: int = 16,
        durability: Literal["output", "strict"] = "output",
    ) -> None:
        super().__init__()
        if durability not in {"output", "strict"}:
            msg = f"durability={durability!r} is not known"
            raise InvalidSetting(msg, hint='Leave it out, or say durability="strict".')
        self._store = store
        self._concurrency = concurrency
        self._strict = durability == "strict"
        self._processes: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, asyncio.Task[Process]] = (
            weakref.WeakKeyDictionary()
        )

    @property
    def store(self) -> str:
        """The address of the store, as it is now."""
        return self._store or os.environ.get("HOLDFAST_STORE") or address.DEFAULT

    async def host(self) -> Process:
        """The process of this event loop; the first call starts it, and the end of the loop ends it."""
        loop = asyncio.get_running_loop()
        if loop not in self._processes:
            opening = opened(
                self.programs(),
                self.store,
                offer=self.offer(concurrency=self._concurrency),
                strict=self._strict,
                schedules=tuple(self.schedules.values()),
            )
            self._processes[loop] = create_detached_task(loop, opening, "holdfast-open")
        return await asyncio.shield(self._processes[loop])

    @asynccontextmanager
    async def running(self) -> AsyncIterator[Process]:
        """The application works in the block: jobs are claimed and driven. Afterwards it holds nothing."""
        process = await self.host()
        try:
            yield process
        finally:
            self._processes.pop(asyncio.get_running_loop(), None)
            await process.close()


DEFAULT = App()
"""Where `hf.agent`, `hf.tool`, `hf.step`, `hf.session`, `hf.schedule` and `hf.Assistant` declare."""

agent = DEFAULT.agent
tool = DEFAULT.tool
step = DEFAULT.step
session = DEFAULT.session
schedule = DEFAULT.schedule
Assistant = DEFAULT.assistant
