"""What comes of a job, over an open store."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, Mapping, Sequence
from typing import Any, Final

from holdfast.client import job_view
from holdfast.client.following_protocol import SAME
from holdfast.client.operating import EmbeddedOperating
from holdfast.client.records import Checked, JobView, Reply, Trace, Walk
from holdfast.client.replay_preview import walk_of
from holdfast.client.trace import trace_of
from holdfast.engine.short_journals import SHORT
from holdfast.errors import InvalidMove, NotFound, NotOver
from holdfast.model.hash_chain import SealedEvent
from holdfast.model.ids import check_name
from holdfast.model.jobs import JobHead, Submitted
from holdfast.model.states import HELD, Status
from holdfast.model.streams import AttemptSuperseded, Chunk

POLL_S: Final = 1.0


class EmbeddedFollowing(EmbeddedOperating, ABC):
    """See `holdfast.client.following_protocol.Following`."""

    @abstractmethod
    async def result(self, job_id: str, *, timeout_s: float | None = None) -> JobView: ...

    async def _head(self, job_id: str) -> JobHead:
        check_name(job_id, "job id")
        return self._ours(await self._store.jobs.head(job_id))

    def _ours(self, head: JobHead) -> JobHead:
        if head.namespace != self._namespace:
            msg = f"there is no job {head.job_id!r}"
            raise NotFound(msg)
        return head

    async def _look(self, job_id: str) -> tuple[JobHead, Sequence[SealedEvent]]:
        """The head, and the journal if it is short; else as much of it as is read at once."""
        check_name(job_id, "job id")
        head, sealed = await self._store.jobs.look(job_id, events=SHORT)
        return self._ours(head), sealed

    async def stream(
        self, job_id: str, *, after: str | None = None, stream: str | None = None
    ) -> AsyncGenerator[Chunk | AttemptSuperseded, None]:
        from holdfast.engine.streams import watch

        await self._head(job_id)
        async for one in watch(self._store, job_id, after=after, stream=stream):
            yield one

    async def reply(self, job_id: str, *, timeout_s: float | None = None) -> Reply:
        from holdfast.agents.conversation import message_in, text_in

        turn_id, output = job_id, await self._output(job_id, timeout_s)
        while "joined" in output:
            turn_id = str(output["joined"])
            output = await self._output(turn_id, timeout_s)
        session_id = (await self._head(turn_id)).session_id
        if session_id is None or "node" not in output:
            raise _no_message(job_id)
        node = await self._store.sessions.node(session_id, output["node"], namespace=self._namespace)
        if node is None:
            msg = f"the answer of job {turn_id} is not in the session any more"
            raise NotFound(msg)
        message = message_in(node)
        return Reply(
            job_id=job_id,
            turn_job_id=turn_id,
            session_id=session_id,
            node_id=node.node_id,
            text=text_in(message),
            message=message,
        )

    async def _output(self, job_id: str, timeout_s: float | None) -> dict[str, Any]:
        """What the job says about the answer, once it is over. One that is held for a person may take for ever, and is
        not waited for."""
        loop = asyncio.get_running_loop()
        deadline = None if timeout_s is None else loop.time() + timeout_s
        while True:
            head = await self._head(job_id)
            if head.session_id is None:
                raise _no_message(job_id)
            if head.wait_reason in HELD:
                msg = f"job {job_id} is held: {head.wait_reason}"
                raise InvalidMove(msg, hint=f"Look at it and decide: holdfast job {job_id}")
            left = POLL_S if deadline is None else min(POLL_S, deadline - loop.time())
            try:
                return _said(await self.result(job_id, timeout_s=max(left, 0)))
            except NotOver:
                if left < POLL_S:
                    raise

    async def trace(self, job_id: str) -> Trace:
        head = await self._head(job_id)
        sealed = await self._store.journal.read(job_id)
        return trace_of(head, sealed, now=self._clock.wall_us())

    async def verify(self, job_id: str) -> Checked:
        while True:
            head, sealed = await self._head(job_id), await self._store.journal.read(job_id)
            if head == await self._head(job_id):  # nobody wrote in between, so the two belong together
                return job_view.judged(head, sealed)

    async def walk(self, job_id: str) -> Walk:
        head = await self._head(job_id)
        return walk_of(head, await self._store.journal.read(job_id), now=self._clock.wall_us())

    async def fork(
        self,
        job_id: str,
        *,
        at: str | int,
        input: Any = SAME,  # noqa: A002 -- the word for it everywhere else
        fork_id: str | None = None,
        request_key: str | None = None,
        edits: Mapping[str, Any] | None = None,
        by: str = "",
        why: str = "",
    ) -> Submitted:
        from holdfast.engine import fork

        await self._head(job_id)
        return await fork.fork(
            self._store,
            job_id,
            at=at,
            ids=self._ids,
            given=fork.SAME if input is SAME else input,
            fork_id=None if fork_id is None else check_name(fork_id, "job id"),
            request_key=request_key,
            edits=edits,
            by=by,
            why=why,
        )


def _said(job: JobView) -> dict[str, Any]:
    """What a turn that is over says about its answer."""
    if job.status is not Status.COMPLETED:
        msg = f"job {job.job_id} is {job.status}: it has no answer"
        raise InvalidMove(msg, hint="Send the message again; the conversation is unchanged.")
    return job.output if isinstance(job.output, dict) else {}


def _no_message(job_id: str) -> InvalidMove:
    return InvalidMove(f"job {job_id} answers no message", hint="Read the job: its output is its result.")
