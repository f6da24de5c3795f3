"""Driver: holds one job and writes to it as a worker does."""

from __future__ import annotations

from holdfast.model.append import NOTHING, Append, Extras, Holder, Move, advance_holder, append_of
from holdfast.model.events import Event, JobCompleted, JobReleased, JobWaiting, StepFinished
from holdfast.model.hash_chain import Head
from holdfast.model.lease import Grant
from holdfast.model.states import Status, WaitReason
from holdfast.store.clock import Clock
from holdfast.store.contract import Store
from holdfast.store.ports.leases import HeldLease


def step(name: str, result: object = None) -> StepFinished:
    """An event that leaves the status, for appends that need one."""
    return StepFinished(step_key=f"1/{name}#1", args_digest="", result=result)


class Driver:
    """Knows the head it has seen and writes after it. `holder` advances with every accepted write."""

    def __init__(self, store: Store, clock: Clock, grant: Grant) -> None:
        self.store = store
        self.clock = clock
        self.grant = grant
        head = Head(grant.head_seq, grant.head_hash)
        self.holder = Holder(grant.job_id, grant.namespace, grant.fence, grant.lease_token, head)

    @property
    def job_id(self) -> str:
        return self.grant.job_id

    @property
    def held(self) -> HeldLease:
        return HeldLease(self.grant.job_id, self.grant.fence, self.grant.lease_token)

    @property
    def next_seq(self) -> int:
        """The seq of the first event of the next append."""
        return self.holder.head.seq + 1

    def build(
        self,
        *events: Event,
        move: Move | None = None,
        extras: Extras = NOTHING,
        mail_seen: int | None = None,
        progress: bool = False,
    ) -> Append:
        """Build the append of these events after the head this driver has seen, each with its own time; nothing is
        sent."""
        now = self.clock.wall_us()
        return append_of(
            self.holder,
            events,
            at=[now + nth for nth in range(len(events))],
            mail_seen=mail_seen,
            move=move,
            progress=progress,
            extras=extras,
        )

    async def send(self, append: Append) -> Append:
        """Send the append, which must be accepted; the driver continues after it."""
        head = await self.store.journal.append(append)
        assert head == append.head, "an accepted append leads to the head it named"
        self.holder = advance_holder(self.holder, append)
        return append

    async def write(
        self,
        *events: Event,
        move: Move | None = None,
        extras: Extras = NOTHING,
        mail_seen: int | None = None,
        progress: bool = False,
    ) -> Append:
        return await self.send(
            self.build(*events, move=move, extras=extras, mail_seen=mail_seen, progress=progress)
        )

    async def wait(self, reason: WaitReason, *, wake_at: int | None = None) -> Append:
        return await self.write(
            JobWaiting(reason=reason, wake_at=wake_at),
            move=Move(status=Status.WAITING, reason=reason, wake_at=wake_at),
        )

    async def release(self, *, ready_at: int = 0, failed: bool = False) -> Append:
        return await self.write(
            JobReleased(), move=Move(status=Status.PENDING, ready_at=ready_at, failed=failed)
        )

    async def complete(self, output: object = None, *, extras: Extras = NOTHING) -> Append:
        return await self.write(
            JobCompleted(output=output), move=Move(status=Status.COMPLETED), extras=extras
        )
