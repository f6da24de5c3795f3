"""A started job, as its starter holds it."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from typing import Any, Generic, Protocol, TypeVar

from holdfast.agents.signatures import plain
from holdfast.model.jobs import JobDraft
from holdfast.model.streams import AttemptSuperseded, Chunk
from holdfast.store.contract import Store

R_co = TypeVar("R_co", covariant=True)


class Host(Protocol):
    """Whoever keeps an agent's jobs and drives them: how agents reach the runtime without knowing it."""

    async def start(self, draft: JobDraft) -> str:
        """The id of the durable job."""
        ...

    async def result(self, job_id: str) -> Any:
        """What the job returned, when it is over; or the error that says how it ended. If no worker is there for it,
        that is logged."""
        ...

    async def drive(self, job_id: str) -> Any:
        """The same, and meanwhile this process drives the job and its descendants."""
        ...

    @property
    def store(self) -> Store:
        """Where the jobs are kept, and the sessions."""
        ...

    def now_us(self) -> int:
        """The time, as this process knows it."""
        ...

    async def cancel(self, job_id: str, why: str) -> None: ...

    async def signal(self, job_id: str, name: str, body: Any) -> None: ...

    def stream(
        self, job_id: str, after: str | None, stream: str | None
    ) -> AsyncGenerator[Chunk | AttemptSuperseded, None]:
        """What the job says while it runs."""
        ...


class Job(Generic[R_co]):
    """A durable job. It goes on whether or not anybody holds this."""

    def __init__(self, job_id: str, host: Host, read: Callable[[Any], R_co]) -> None:
        self.id = job_id
        self._host = host
        self._read = read

    async def result(self) -> R_co:
        """What the agent returned, as soon as it has; or the error that says how the job ended. Waiting is not working:
        the job needs a worker."""
        return self._read(await self._host.result(self.id))

    async def cancel(self, why: str = "") -> None:
        """The job has been told to end."""
        await self._host.cancel(self.id, why)

    async def signal(self, name: str, body: Any = None) -> None:
        """The signal is kept for the job."""
        await self._host.signal(self.id, name, plain(body, "a signal's body"))

    def stream(
        self, *, after: str | None = None, stream: str | None = None
    ) -> AsyncGenerator[Chunk | AttemptSuperseded, None]:
        """What the job's tools say with `hf.emit`, on this stream or on all, until the job is over.

        Each chunk has a `cursor`. Keep the last one, and `after=cursor` goes on from there, in any process, without
        gaps and without repeats. `AttemptSuperseded` says that a call is made again: forget what you have of its step.
        """
        return self._host.stream(self.id, after, stream)

    def __repr__(self) -> str:
        return f"<job {self.id}>"
