"""External work: one claimed work item of an external agent. Its lease is renewed, its function runs, its end is
reported.

    claimed ── the function runs ──────────────────── returns ── complete, repeated until the server responds
       │              │                                raises ── fail, recoverable unless the error says otherwise
       └── renewed at a third of the lease, for as long as it is held
                      │
                      └── fenced: the function is cancelled, and nothing more is reported

The lease is measured by the clock of this machine, from before it was requested, so `WorkAssignment.is_ours` is never
true for too long, whatever other clocks say. A lease that expires while the server is unavailable does not stop the
function: most often no other agent could take the work either. If one did, the fence rejects this result and the next
renewal reports it.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import inspect
import logging
from collections.abc import Awaitable, Callable
from typing import Any, Final, Protocol

from holdfast.agents.signatures import plain
from holdfast.agents.threads import in_thread
from holdfast.api.work_records import ClaimedWork
from holdfast.client.client import Client
from holdfast.client.server_retry import ServerRetry
from holdfast.client.work_lease import renew_lease
from holdfast.errors import Fenced, HoldfastError, InvalidPayload, NotFound
from holdfast.model.ids import check_integer
from holdfast.model.time import SECOND
from holdfast.store.clock import Clock

MESSAGE_LENGTH_MAX: Final = 4_000
ANSWER_S: Final = 30.0
log = logging.getLogger("holdfast.outside")


class Unrecoverable(Exception):
    """Raise it from a function that serves a capability: another attempt at this work would fail again."""

    def __init__(self, message: str, *, code: str | None = None) -> None:
        super().__init__(message)
        self.code = code


class Serves(Protocol):
    """A function that does work of one capability, async or blocking."""

    def __call__(self, work: WorkAssignment, /) -> Any: ...


class WorkAssignment:
    """A work item for the function that does it. `item` is the whole claim as the server returned it."""

    def __init__(
        self,
        item: ClaimedWork,
        tell: Callable[[int, str | None], Awaitable[None]],
        is_ours: Callable[[], bool],
    ) -> None:
        self.item = item
        self._tell = tell
        self._is_ours = is_ours

    def __repr__(self) -> str:
        return f"<work {self.id} {self.capability!r}, attempt {self.attempt}>"

    @property
    def id(self) -> str:
        """The same for every attempt: usable as an idempotency key."""
        return self.item.id

    @property
    def description(self) -> str:
        return self.item.description

    @property
    def capability(self) -> str:
        return self.item.capability

    @property
    def context_data(self) -> Any:
        return self.item.context_data

    @property
    def attempt(self) -> int:
        """Counts from 1."""
        return self.item.attempt

    @property
    def is_ours(self) -> bool:
        """Whether the lease certainly still holds, so that no other agent can have this work now. Check it before an
        action that must not happen twice."""
        return self._is_ours()

    def progress(self, percent: int, note: str | None = None) -> Awaitable[None]:
        """Reports the progress in percent. Of several reports in quick succession the last one counts.

        Awaited, it returns when the report was sent, or when the server was unavailable and the report goes with the
        next renewal. From a blocking function call it without `await`.
        """
        if not 0 <= check_integer(percent, "progress") <= 100:
            raise InvalidPayload(f"progress is {percent!r}", hint="Say a whole number from 0 to 100.")
        return self._tell(percent, note)


class HeldItem:
    """A claimed item, until it has ended for this agent. `since_us`: a tick before it was requested."""

    def __init__(
        self,
        item: ClaimedWork,
        function: Serves,
        client: Client,
        *,
        patience: ServerRetry,
        clock: Clock,
        lease_s: int,
        since_us: int,
    ) -> None:
        self.work = WorkAssignment(item, self._say, self._covers)
        self._item = item
        self._function = function
        self._client = client
        self._patience = patience
        self._clock = clock
        self._lease_s = lease_s
        self._sure_since_us = since_us
        self._loop = asyncio.get_running_loop()
        self._report: tuple[int, str | None] | None = None
        self._listeners: list[asyncio.Future[None]] = []
        self._wake = asyncio.Event()
        self._doing: asyncio.Task[Any] | None = None
        self._lost: HoldfastError | None = None
        self._given_back = False

    async def go(self) -> str:
        """Runs the item to its end for this agent: `completed`, `failed`, `released` or `lost`."""
        if not self._covers():
            # The response to the claim took longer than the lease: another agent may have the work already.
            await self._first_renewal()
        if self._lost is not None:
            return self._dropped()
        self._doing = asyncio.create_task(self._call(), name=f"holdfast-work-{self._item.id}")
        keeping = asyncio.create_task(self._keep(), name=f"holdfast-lease-{self._item.id}")
        try:
            if self._given_back:
                self._doing.cancel()
            await asyncio.wait([self._doing])
            return await self._end(self._doing)
        finally:
            self._doing.cancel()
            keeping.cancel()
            await asyncio.wait([self._doing, keeping])
            self._hush(None)

    def give_back(self) -> None:
        """Cancels the function and releases the work, unless it has ended already."""
        self._given_back = True
        if self._doing is not None:
            self._doing.cancel()

    async def _call(self) -> Any:
        if inspect.iscoroutinefunction(self._function):
            return await self._function(self.work)
        result = await in_thread(functools.partial(self._function, self.work))
        return await result if inspect.isawaitable(result) else result

    # ── the end ───────────────────────────────────────────────────────────────────────────────────

    async def _end(self, doing: asyncio.Task[Any]) -> str:
        if self._lost is not None:
            _looked_at(doing)
            return self._dropped()
        if doing.cancelled():
            if self._given_back:
                return await self._tell("released", self._release)
            return await self._failed(RuntimeError("the function cancelled itself"))
        error = doing.exception()
        if error is None:
            return await self._completed(doing.result())
        return await self._failed(error)

    async def _completed(self, result: Any) -> str:
        """Reports the completion until the server responds. The lease is renewed meanwhile; the server recognises a
        repeated completion."""
        try:
            stored = plain(result, "the result of this work")
            return await self._tell(
                "completed",
                functools.partial(self._client.complete_work, self._item.id, **self._right(), result=stored),
            )
        except (InvalidPayload, TypeError) as error:  # the function's result cannot be stored
            return await self._failed(error)

    async def _failed(self, error: BaseException) -> str:
        final = isinstance(error, Unrecoverable)
        log.warning("work %s failed%s", self._item.id, " for good" if final else "", exc_info=error)
        message = str(error) if final else f"{type(error).__name__}: {error}"
        code = getattr(error, "code", None)
        send = functools.partial(
            self._client.fail_work,
            self._item.id,
            **self._right(),
            message=message.encode(errors="replace").decode()[:MESSAGE_LENGTH_MAX] or type(error).__name__,
            code=code if isinstance(code, str) else type(error).__name__,
            recoverable=not final,
        )
        return await self._tell("failed", send)

    async def _release(self) -> Any:
        return await self._client.release_work(self._item.id, **self._right(), why="the agent is stopping")

    async def _tell(self, how: str, send: Callable[[], Awaitable[Any]]) -> str:
        try:
            await self._patience.answer(f"work {self._item.id} {how}", send, within_s=ANSWER_S)
        except (Fenced, NotFound) as error:
            self._lost = error
            return self._dropped()
        log.info("work %s: %s", self._item.id, how)
        return how

    def _dropped(self) -> str:
        log.warning("lost the lease of work %s: %s", self._item.id, self._lost)
        return "lost"

    def _right(self) -> dict[str, Any]:
        return {"fence": self._item.fence, "lease_token": self._item.lease_token}

    # ── the lease ─────────────────────────────────────────────────────────────────────────────────

    def _covers(self) -> bool:
        passed_us = self._clock.tick_us() - self._sure_since_us
        return self._lost is None and passed_us < self._lease_s * SECOND

    async def _first_renewal(self) -> None:
        try:
            await self._patience.answer(f"work {self._item.id} renewal", self._renew, within_s=ANSWER_S)
        except (Fenced, NotFound) as error:
            self._lost = error

    async def _keep(self) -> None:
        """Renews the lease, with pending progress, until the work has ended or belongs to another agent."""
        self._lost = await renew_lease(
            self._item.id,
            self._renew,
            self._due,
            retry=self._patience,
            within_s=max(self._lease_s / 3, 2.0),
            report=self._not_renewed,
        )
        self._hush(self._lost)
        if self._doing is not None:
            self._doing.cancel()

    def _not_renewed(self, refusal: HoldfastError | None) -> None:
        if refusal is not None:
            self._report = None  # the server rejected the report or the reporter
        self._hush(refusal)

    async def _due(self) -> None:
        """Waits until a third of the lease has passed, or there is progress to report."""
        passed_s = (self._clock.tick_us() - self._sure_since_us) / SECOND
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._wake.wait(), max(self._lease_s / 3 - passed_s, 0))

    async def _renew(self) -> None:
        self._wake.clear()
        report, listeners = self._report, list(self._listeners)
        since_us = self._clock.tick_us()
        if report is None:
            await self._client.renew_work(self._item.id, **self._right(), lease_seconds=self._lease_s)
        else:
            await self._client.progress_work(
                self._item.id,
                **self._right(),
                progress=report[0],
                note=report[1],
                lease_seconds=self._lease_s,
            )
        self._sure_since_us = since_us
        if self._report is report:
            self._report = None
        for listener in listeners:
            _wake(listener, None)
            self._listeners.remove(listener)

    # ── progress ──────────────────────────────────────────────────────────────────────────────────

    def _say(self, percent: int, note: str | None) -> Awaitable[None]:
        """Queues a progress report, from the loop or from the thread of a blocking function."""
        sent = self._loop.create_future()

        def say() -> None:
            self._report = (percent, note)
            self._listeners.append(sent)
            self._wake.set()

        self._loop.call_soon_threadsafe(say)
        return sent

    def _hush(self, error: HoldfastError | None) -> None:
        """Ends the waits for progress reports."""
        for listener in self._listeners:
            _wake(listener, error)
        self._listeners.clear()


def _wake(listener: asyncio.Future[None], error: HoldfastError | None) -> None:
    if listener.done():
        return
    if error is None:
        listener.set_result(None)
    else:
        listener.set_exception(error)
        listener.exception()  # retrieved: perhaps no task awaits it


def _looked_at(task: asyncio.Task[Any]) -> None:
    """Retrieves the task's exception, so that asyncio does not report it."""
    if not task.cancelled():
        task.exception()
