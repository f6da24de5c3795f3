"""A link between an agent and the server that can be cut: nothing gets through in either direction, and nobody is told.

What was on its way when it was cut arrives when it is healed, late, as TCP would send it again. Between the two both
ends believe that they are connected.
"""

from __future__ import annotations

import asyncio
import re
from collections import Counter
from contextlib import AbstractAsyncContextManager, suppress

from tests.api.external_agents.relay import Carry, Relay, listening


class Link(Relay):
    """Passes bytes on, unless it is cut."""

    def __init__(self) -> None:
        super().__init__()
        self.passed: Counter[str] = Counter()
        """Requests that have gone to the server, by the last part of their path."""
        self.answered: Counter[int] = Counter()
        """Answers that have come back, by status."""
        self.stuck: Counter[str] = Counter()
        """Requests that ran into the cut."""
        self._flowing = asyncio.Event()
        self._flowing.set()

    def cut(self) -> None:
        self._flowing.clear()

    def heal(self) -> None:
        self._flowing.set()

    def carriers(self) -> tuple[Carry, Carry]:
        return self._ask, self._answer

    async def _ask(self, reader: asyncio.StreamReader, back: asyncio.StreamWriter) -> None:
        while data := await reader.read(65536):
            found = re.match(rb"[A-Z]+ [^ ]*(/[^ /]*) HTTP", data)
            path = found[1].decode() if found is not None else ""
            if not self._flowing.is_set():
                self.stuck[path] += 1
                await self._flowing.wait()
            back.write(data)
            await back.drain()
            self.passed[path] += 1

    async def _answer(self, there: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await there.read(65536):
            await self._flowing.wait()
            with suppress(OSError):  # whoever asked may have given up
                writer.write(data)
                await writer.drain()
            found = re.match(rb"HTTP/1.1 (\d+) ", data)
            self.answered[0 if found is None else int(found[1])] += 1


def linked() -> AbstractAsyncContextManager[Link]:
    return listening(Link())
