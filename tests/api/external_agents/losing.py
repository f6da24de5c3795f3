"""A wire that loses answers: the server has done it, and the caller does not hear of it."""

from __future__ import annotations

import asyncio
from collections import Counter
from contextlib import AbstractAsyncContextManager

from tests.api.external_agents.relay import Carry, Relay, listening


class Losing(Relay):
    """Passes bytes on. The answer to a request whose path ends like this is lost, so many times."""

    def __init__(self) -> None:
        super().__init__()
        self.lost: Counter[str] = Counter()
        self.passed: Counter[str] = Counter()
        """Requests that are on their way to the server, by the last part of their path."""
        self._lose: Counter[str] = Counter()

    def lose(self, ending: str, times: int = 1) -> None:
        self._lose[ending] = times

    def carriers(self) -> tuple[Carry, Carry]:
        losing: list[str] = []

        async def ask(reader: asyncio.StreamReader, back: asyncio.StreamWriter) -> None:
            while data := await reader.read(65536):
                path = data.split(b" ", 2)[1].decode() if data[:5] in {b"POST ", b"GET /"} else ""
                ending = next((one for one, left in self._lose.items() if left and path.endswith(one)), None)
                if ending is not None:
                    self._lose[ending] -= 1
                    losing.append(ending)
                back.write(data)
                await back.drain()
                self.passed["/" + path.rpartition("/")[2]] += 1

        async def answer(there: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            while data := await there.read(65536):
                if losing:
                    self.lost[losing[0]] += 1
                    return
                writer.write(data)
                await writer.drain()

        return ask, answer


def losing() -> AbstractAsyncContextManager[Losing]:
    return listening(Losing())
