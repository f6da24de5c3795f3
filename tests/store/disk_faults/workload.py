"""A dozen writes, each of which may be sent again: what a caller does whose first try was refused."""

from __future__ import annotations

import functools
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TypeAlias

import msgspec

from holdfast.errors import HoldfastError, OutcomeUnknown
from holdfast.model.ids import SequentialIds
from holdfast.model.inbox import Boundary, Claim
from holdfast.model.jobs import JobDraft
from holdfast.model.mailbox import MailDraft
from holdfast.model.session import SessionNode, TurnCommit, stamp_commit
from holdfast.model.states import MailKind
from holdfast.model.time import MINUTE
from holdfast.store.clock import VirtualClock
from holdfast.store.ports.leases import ClaimRequest
from holdfast.store.sqlite.executor import SqliteExecutor
from holdfast.store.sqlite.open import open_sqlite
from holdfast.store.tables.store import SqlStore
from holdfast.testing.conformance.drafts import LARGE, message
from holdfast.testing.conformance.driver import Driver, step
from tests.store.power_cut.evidence import Eye

Step: TypeAlias = Callable[[], Awaitable[object]]

CHECKPOINT_PAGES = 12
"""Small, so that writing into the database file itself is part of it."""


async def open_store(path: Path, *, vfs: str | None = None) -> SqlStore:
    store = await open_sqlite(path, clock=VirtualClock(), ids=SequentialIds(1), vfs=vfs)
    executor = store.executor
    assert isinstance(executor, SqliteExecutor)
    executor.writer.execute(f"PRAGMA wal_autocheckpoint = {CHECKPOINT_PAGES}")
    return store


class Workload:
    """Ids and times are fixed, so that two runs that did the same leave the same rows."""

    def __init__(self, store: SqlStore) -> None:
        self._store = store
        self._driver: Driver
        self._claim: Claim

    def steps(self) -> list[Step]:
        return [
            self._submit,
            self._claim_job,
            functools.partial(self._append, "first", "small"),
            functools.partial(self._append, "second", LARGE),
            self._send,
            self._enqueue,
            self._claim_inbox,
            self._commit,
            self._put_blob,
            functools.partial(self._append, "third", "small"),
            self._read_back,
            self._complete,
        ]

    async def _submit(self) -> None:
        draft = JobDraft(kind="work", job_id="job-1", request_key="r-1", input={"text": "x" * 3000})
        await self._store.jobs.submit(draft)

    async def _claim_job(self) -> None:
        ask = ClaimRequest(worker="w", token="t-1", queues=("default",))
        (grant,) = await self._store.leases.claim(ask)
        self._driver = Driver(self._store, VirtualClock(), grant)

    async def _append(self, name: str, text: str) -> None:
        await self._driver.write(step(name, {"text": text}), step(f"{name}, again"))

    async def _send(self) -> None:
        letter = MailDraft(job_id="job-1", kind=MailKind.SIGNAL, operation_id="o-1", body={"text": "hello"})
        await self._store.post.send(letter)

    async def _enqueue(self) -> None:
        draft = msgspec.structs.replace(message("hello", "talk"), batch_id="batch-1")
        await self._store.inbox.enqueue(draft)

    async def _claim_inbox(self) -> None:
        claim = await self._store.inbox.claim(
            "talk", "w", Boundary.IDLE, ttl_us=MINUTE, max_batches=1, token="t-2"
        )
        assert claim is not None
        self._claim = claim

    async def _commit(self) -> None:
        nodes = (SessionNode(node_id="node-1", body={"text": "hi"}),)
        turn = TurnCommit(session_id="talk", nodes=nodes, completes=(self._claim.completion(),))
        await self._store.sessions.commit(stamp_commit(turn, "turn-1"))

    async def _put_blob(self) -> None:
        await self._store.blobs.put(b"blob " * 5000)

    async def _read_back(self) -> None:
        assert len(await self._store.journal.read("job-1")) == 8
        view = await self._store.sessions.load("talk")
        assert view is not None
        assert view.revision == 1

    async def _complete(self) -> None:
        await self._driver.complete("done")


async def undisturbed(path: Path) -> list[str]:
    """A picture of the store before the first step and after each: what it looks like when nothing goes wrong."""
    eye = Eye()
    store = await open_store(path)
    pictures = [eye.look(path).picture]
    for each in Workload(store).steps():
        await each()
        pictures.append(eye.look(path).picture)
    await store.close()
    return pictures


class Trial:
    """Plays the workload on a disk that has its bad moments, and checks what every refusal leaves behind."""

    def __init__(self, path: Path, pictures: list[str]) -> None:
        self._path = path
        self._pictures = pictures
        self._eye = Eye()
        self.refusals: list[HoldfastError] = []

    async def play(
        self, store: SqlStore, *, spoil: Callable[[int], None], mend: Callable[[], None], tries: int = 1000
    ) -> None:
        """Each step on a disk that fails at once, then on one that lets one call through, then two, until it succeeds.

        `spoil(n)` makes everything after n calls fail. After `tries` refusals the step is played on a good disk.
        """
        for number, each in enumerate(Workload(store).steps()):
            for calls in range(tries):
                spoil(calls)
                try:
                    await each()
                except HoldfastError as error:
                    self.refusals.append(error)
                else:
                    break
                finally:
                    mend()
                self._must_be_refused(
                    number, f"step {number} was refused after {calls} calls and left nothing"
                )
            else:
                await each()
            self.must_show(number + 1, f"step {number} is there, once")
        await store.close()
        self.must_show(-1, "all of it is still there after closing")

    def _must_be_refused(self, number: int, words: str) -> None:
        """Nothing of the step is there; or all of it, if the error said that this is possible."""
        if not isinstance(self.refusals[-1], OutcomeUnknown):
            self.must_show(number, words)
            return
        sight = self._eye.look(self._path)
        assert sight.damage == ()
        assert sight.picture in self._pictures[number : number + 2], "half of a step is there"

    def must_show(self, number: int, words: str) -> None:
        sight = self._eye.look(self._path)
        assert sight.damage == ()
        assert all(error.hint for error in self.refusals), "an error says what to do next"
        assert sight.picture == self._pictures[number], f"not true: {words}"
