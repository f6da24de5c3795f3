"""Receiver of the storm: a process of its own that acts, and then may be slow or hang up.

    python -m tests.kill.storm.receiver LOG SEED DROPS

It prints its address. Every act is one line of the log, which is written before the answer: the log is the witness of
what was done. `pay` deduplicates by key, `mail` and `fax` act as often as they are sent. Whether a request is dropped,
slow, or not answered after it was acted upon, follows from the seed; DROPS is the share of those that are dropped.
"""

from __future__ import annotations

import asyncio
import random
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec

from tests.kill.processes.receiver import Receiver, serving

HANG_UP = {"look": 0.02, "pay": 0.08, "mail": 0.03, "fax": 0.03}
"""The share of requests that are acted upon and never answered."""

LATE = 0.01
LATE_S = 3.0
"""The share of requests that are answered after the caller's time is over."""

ACTS_WITHIN_S = 0.2
ANSWERS_WITHIN_S = 0.2
EFFECTS = ("pay", "mail", "fax")
CHANGED = 0


class Act(msgspec.Struct, frozen=True):
    """One line of the log. `nth` counts the acts for this item, from 1. A deduplicated request is no act and has no
    line, unless its arguments are not those of the first request under its key: then `nth` is `CHANGED`."""

    call: str
    item: str
    key: str
    reference: str
    nth: int
    at_us: int

    @property
    def receipt(self) -> str:
        return f"{self.call} {self.item} #{self.nth}"


class StormReceiver(Receiver):
    """Receiver with a log on disk."""

    def __init__(self, log: Path, seed: int, drops: float) -> None:
        super().__init__()
        self._file = log.open("ab", buffering=0)
        self._chance = random.Random(seed)
        self._drops = drops
        self._acts: dict[str, list[Act]] = {}
        self._by_key: dict[str, Act] = {}

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One connection, one request; a caller that is gone by now changes nothing about what is done."""
        try:
            line = await reader.readline()
            if line.endswith(b"\n"):
                receipt = await self._answer(msgspec.json.decode(line))
                if receipt is not None:
                    writer.write(msgspec.json.encode(receipt) + b"\n")
                    await writer.drain()
        except ConnectionError:
            pass
        finally:
            writer.close()

    async def _answer(self, asked: dict[str, Any]) -> str | None:
        """The receipt; None hangs up."""
        call, item, chance = asked["call"], asked["item"], self._chance
        if call == "probe":
            acts = self._acts.get(item)
            return acts[0].receipt if acts else ""
        await asyncio.sleep(chance.uniform(0, ACTS_WITHIN_S) ** 2 / ACTS_WITHIN_S)
        if chance.random() < self._drops:
            return None
        act = self._act(call, item, asked["key"], asked["reference"])
        wait_s = (
            LATE_S if chance.random() < LATE else chance.uniform(0, ANSWERS_WITHIN_S) ** 2 / ANSWERS_WITHIN_S
        )
        hang_up = chance.random() < HANG_UP[call]
        await asyncio.sleep(wait_s)
        return None if hang_up else act.receipt

    def _act(self, call: str, item: str, key: str, reference: str) -> Act:
        if key and (known := self._by_key.get(key)) is not None:
            if reference != known.reference:
                self._write(Act(call, item, key, reference, CHANGED, _now_us()))
            return known
        before = self._acts.setdefault(item, [])
        act = Act(call, item, key, reference, len(before) + 1, _now_us())
        self._write(act)
        if call in EFFECTS:
            before.append(act)
        if key:
            self._by_key[key] = act
        return act

    def _write(self, act: Act) -> None:
        self._file.write(msgspec.json.encode(act) + b"\n")


def _now_us() -> int:
    return time.time_ns() // 1000


def read_log(log: Path) -> list[Act]:
    """The log so far, without a line that is being written."""
    whole, _, _ = log.read_bytes().rpartition(b"\n")
    return [msgspec.json.decode(line, type=Act) for line in whole.splitlines()]


async def main(arguments: Sequence[str]) -> None:
    log, seed, drops = arguments
    async with serving(StormReceiver(Path(log), int(seed), float(drops))) as receiver:
        print(receiver.address, flush=True)
        await asyncio.get_running_loop().create_future()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1:]))
