"""What the jobs do: an errand is a list of moves, and this reads it aloud."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import msgspec

from holdfast.engine.checkpoints import checkpoint, restore_state
from holdfast.engine.children import spawn
from holdfast.engine.durable_call import READS, CallPolicy, DurableCall
from holdfast.engine.execution import Execution
from holdfast.engine.runner_config import Program
from holdfast.engine.suspension import sleep, wait
from holdfast.errors import CallFailed, Denied, Refused
from holdfast.model.jobs import JobDraft
from holdfast.model.time import SECOND
from tests.simulation.world.outside import KEYED, NATURAL, PLAIN, Line
from tests.simulation.world.witness import Witness


class Room:
    """How many jobs run in one process at this moment, and whether there were ever too many."""

    def __init__(self, limit: int, witness: Witness, process: str) -> None:
        self._limit = limit
        self._witness = witness
        self._process = process
        self._inside = 0

    @contextmanager
    def taken(self) -> Iterator[None]:
        self._inside += 1
        if self._inside > self._limit:
            self._witness.wrong.append(f"I30: {self._inside} jobs in {self._process}, allowed {self._limit}")
        try:
            yield
        finally:
            self._inside -= 1


class Errand:
    """One run of one job's code."""

    def __init__(self, drive: Execution, line: Line, witness: Witness, job_id: str, *, is_new: bool) -> None:
        self._drive = drive
        self._line = line
        self._witness = witness
        self._job_id = job_id
        self._is_new = is_new
        self._fence = drive.owner.fence  # what this run writes under; the judge compares it
        self._seen: Any = (
            None  # by any branch: what the code heard last is in the arguments of its next effect
        )
        self.results: dict[str, Any] = {}

    async def all_of(self, moves: list[Any]) -> Any:
        """What came of all moves; those before the last checkpoint are known from there."""
        known = restore_state(self._drive, {"next": 0, "results": {}, "seen": None})
        self.results, self._seen = known["results"], known["seen"]
        for number, move in enumerate(moves[known["next"] :], known["next"] + 1):
            if move[0] == "checkpoint":
                state = {"next": number, "results": self.results, "seen": self._seen}
                await checkpoint(self._drive, state)
            else:
                await self.do([move])
        return self.results

    async def do(self, moves: list[Any]) -> None:
        for move in moves:
            self.results[move[1]] = await getattr(self, "_" + move[0])(*move[1:])

    async def _effect(
        self, kind: str, label: str, terms: CallPolicy, name: str | None = None, more: list[Any] | None = None
    ) -> Any:
        async def run(key: str) -> Any:
            return await self._line.send((self._job_id, label, kind, key), self._fence)

        try:
            args = [label, self._seen, *(more or [])]
            return await self._drive.call(DurableCall(f"{name or kind}-{label}", args, run, terms))
        except Refused:
            return "refused"
        except Denied:
            return "denied"

    async def _look(self, label: str, seconds: float | None = None) -> Any:
        async def run(_key: str) -> Any:
            return await self._line.look(self._job_id, label, self._fence, seconds)

        self._seen = await self._drive.call(DurableCall(f"look-{label}", [label], run, READS))
        return self._seen

    async def _pay(self, label: str) -> Any:
        return await self._effect("pay", label, KEYED)

    async def _mail(self, label: str) -> Any:
        return await self._effect("mail", label, PLAIN)

    async def _renamed(self, label: str) -> Any:
        """The same mail under another name, once the new version is there."""
        return await self._effect("mail", label, PLAIN, "letter" if self._is_new else "mail")

    async def _post(self, label: str) -> Any:
        return await self._effect("post", label, self._line.verifiable)

    async def _draft(self, label: str) -> Any:
        return await self._effect("draft", label, KEYED)

    async def _file(self, label: str) -> Any:
        return await self._effect("file", label, NATURAL)

    async def _box(self, label: str) -> Any:
        return await self._effect("box", label, self._line.relaunched)

    async def _asked(self, label: str, kind: str, seconds: int) -> Any:
        """With a person's leave, which lasts only so long."""
        return await self._effect(kind, label, _with_leave(KEYED if kind == "pay" else PLAIN, seconds))

    async def _reworded(self, label: str) -> Any:
        """The new version asks for something else: leave for the old is none for the new."""
        version = ["new"] if self._is_new else []
        return await self._effect("mail", label, _with_leave(PLAIN, 3600), more=version)

    async def _wait(self, label: str, name: str, seconds: int | None) -> Any:
        with self._drive.scope(f"wait-{label}"):
            if seconds is not None:
                self._witness.napped(self._job_id, label, seconds * SECOND)
            try:
                self._seen = await wait(self._drive, name, None if seconds is None else seconds * SECOND)
            except TimeoutError:
                self._seen = "too late"
            return self._seen

    async def _child(self, label: str, moves: list[Any], seconds: float | None) -> Any:
        draft = JobDraft(kind="errand", input={"job": f"{self._job_id}/{label}", "moves": moves})
        try:
            async with asyncio.timeout(seconds):
                self._seen = await spawn(self._drive, draft)
        except TimeoutError:
            self._seen = "given up"
        except CallFailed:
            self._seen = "not completed"
        return self._seen

    async def _sleep(self, label: str, seconds: int) -> Any:
        with self._drive.scope(f"nap-{label}"):
            self._witness.napped(self._job_id, label, seconds * SECOND)
            await sleep(self._drive, seconds * SECOND)

    async def _give_up(self, label: str, seconds: float) -> Any:
        try:
            return await asyncio.wait_for(self._look(label, 0.3), seconds)
        except TimeoutError:
            return "given up"

    async def _flaky(self, label: str, times: int) -> Any:
        async def run(_key: str) -> Any:
            number = await self._line.look(self._job_id, label, self._fence)
            if self._witness.times_looked(self._job_id, label) <= times:
                raise LookupError("not yet")
            return number

        return await self._drive.call(DurableCall(f"look-{label}", [label], run, READS))

    async def _caught(self, label: str) -> Any:
        async def run(_key: str) -> Any:
            await self._line.look(self._job_id, label, self._fence)
            raise LookupError("never")

        try:
            return await self._drive.call(DurableCall(f"look-{label}", [label], run, READS))
        except LookupError:
            return "caught"

    async def _both(self, _label: str, one: list[Any], other: list[Any]) -> Any:
        async def branch(moves: list[Any]) -> None:
            await self.do(moves)

        await asyncio.gather(branch(one), branch(other))


def _with_leave(terms: CallPolicy, seconds: int) -> CallPolicy:
    return msgspec.structs.replace(terms, approve=lambda _args: True, approval_lifetime_us=seconds * SECOND)


def program(line: Line, witness: Witness, room: Room, is_deployed: Callable[[], bool]) -> Program:
    """The code of every job; its input names the job and its moves."""

    async def errand(drive: Execution, given: Any) -> Any:
        with room.taken():
            run = Errand(drive, line, witness, drive.owner.job_id, is_new=is_deployed())
            return await run.all_of(given["moves"])

    return errand
