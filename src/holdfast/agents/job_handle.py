"""Job handle: what the starter of a job holds."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from typing import Any, Generic, Protocol, TypeVar

from holdfast.agents.signatures import plain
from holdfast.model.jobs import JobDraft
from holdfast.model.streams import AttemptSuperseded, Chunk
from holdfast.store.contract import Store

R_co = TypeVar("R_co", covariant=True)


class Host(Protocol):
    """The host stores an agent's jobs and executes them. Agents reach the runtime through this protocol, without
    importing it."""

    async def start(self, draft: JobDraft) -> str:
        """Submits the job; returns its id when it is durable."""
        ...

    async def result(self, job_id: str) -> Any:
        """Waits until the job has ended; returns its result, or raises the error that says how it ended. Logs when no
        worker serves the job."""
        ...

    async def drive(self, job_id: str) -> Any:
        """The same, while this process executes the job and its descendants."""
        ...

    @property
    def store(self) -> Store:
        """The store of the jobs and the sessions."""
        ...

    def now_us(self) -> int:
        """The current time of this process."""
        ...

    async def cancel(self, job_id: str, why: str) -> None: ...

    async def signal(self, job_id: str, name: str, body: Any) -> None: ...

    def stream(
        self, job_id: str, after: str | None, stream: str | None
    ) -> AsyncGenerator[Chunk | AttemptSuperseded, None]:
        """The streamed output of the job."""
        ...


class Job(Generic[R_co]):
    """The handle of a durable job. The job runs independently of the handle."""

    def __init__(self, job_id: str, host: Host, read: Callable[[Any], R_co]) -> None:
        self.id = job_id
        self._host = host
        self._read = read

    async def result(self) -> R_co:
        """Waits until the agent has returned, and returns its result, or raises the error that says how the job
        ended. Waiting does not execute the job: that needs a worker."""
        return self._read(await self._host.result(self.id))

    async def cancel(self, why: str = "") -> None:
        """Requests the cancellation of the job: durable when this returns."""
        await self._host.cancel(self.id, why)

    async def signal(self, name: str, body: Any = None) -> None:
        """Stores the signal in the job's mailbox."""
        await self._host.signal(self.id, name, plain(body, "a signal's body"))

    def stream(
        self, *, after: str | None = None, stream: str | None = None
    ) -> AsyncGenerator[Chunk | AttemptSuperseded, None]:
        """The output of the job's tools (`hf.emit`), on this stream or on all, until the job has ended.

        Each chunk has a `cursor`. Keep the last one, and `after=cursor` continues there, in any process, without gaps
        and without repeats. `AttemptSuperseded` means that a call is made again: drop the output of its step.
        """
        return self._host.stream(self.id, after, stream)

    def __repr__(self) -> str:
        return f"<job {self.id}>"
