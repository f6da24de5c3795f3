"""Holdfast, through its ports: the same code for every store."""

from __future__ import annotations

import asyncio

from bench.contest import Contestant
from bench.material import AT, GROUP, TEXTS, TURNS, step
from bench.places import Place
from holdfast.errors import HoldfastError
from holdfast.model.append import Append, Holder, advance_holder, append_of
from holdfast.model.hash_chain import Head
from holdfast.model.ids import RandomIds
from holdfast.model.inbox import BatchDraft, Boundary, Completion, ItemDraft
from holdfast.model.jobs import JobDraft
from holdfast.model.session import SessionCheckpoint, SessionNode, TurnCommit, Usage, stamp_commit
from holdfast.model.time import HOUR, SECOND
from holdfast.store.ports.leases import ClaimRequest


class Holdfast(Contestant):
    async def open(self) -> None:
        self.store = await self.place.open_store()

    async def close(self) -> None:
        await self.store.close()


# ── appends ───────────────────────────────────────────────────────────────────────────────────────


class _Appends(Holdfast):
    """Some running jobs and what their holder writes with."""

    async def open(self) -> None:
        await super().open()
        jobs = self.rows_per_operation
        await self.store.jobs.submit_many([JobDraft(kind="bench") for _ in range(jobs)])
        ask = ClaimRequest(worker="bench", token="bench-token", queues=("default",), limit=jobs, ttl_us=HOUR)
        grants = await self.store.leases.claim(ask)
        assert len(grants) == jobs, "every job is ours"
        self.holders = [
            Holder(
                grant.job_id,
                grant.namespace,
                grant.fence,
                grant.lease_token,
                Head(grant.head_seq, grant.head_hash),
            )
            for grant in grants
        ]
        self.count = 0

    def build(self, place: int) -> Append:
        """One job's next append, sealed: making the fact, its bytes, its digest and its link is part of our time."""
        self.count += 1
        return append_of(self.holders[place], [step(self.count)], at=AT)

    def check_accepted(self, place: int, append: Append, outcome: Head | HoldfastError) -> None:
        assert outcome == append.head, f"an append was refused: {outcome}"
        self.holders[place] = advance_holder(self.holders[place], append)


class AppendOne(_Appends):
    name = "holdfast fenced append"

    async def operation(self, number: int) -> None:
        append = self.build(0)
        self.check_accepted(0, append, await self.store.journal.append(append))


class AppendMany(_Appends):
    name = f"holdfast append_many of {GROUP} jobs"
    rows_per_operation = GROUP

    async def operation(self, number: int) -> None:
        appends = [self.build(place) for place in range(GROUP)]
        outcomes = await self.store.journal.append_many(appends)
        for place, outcome in enumerate(outcomes):
            self.check_accepted(place, appends[place], outcome)


class AppendTasks(_Appends):
    """Nobody gathers them: every task appends for its own job, and the store makes one commit of what meets."""

    name = f"holdfast append from {GROUP} tasks"
    rows_per_operation = GROUP

    async def operation(self, number: int) -> None:
        await asyncio.gather(*(self._append(place) for place in range(GROUP)))

    async def _append(self, place: int) -> None:
        append = self.build(place)
        self.check_accepted(place, append, await self.store.journal.append(append))


# ── turns ─────────────────────────────────────────────────────────────────────────────────────────


class CommitTurn(Holdfast):
    """One node, one usage row, a new checkpoint, stamped: hashing the turn is part of our time."""

    name = "holdfast turn commit"

    def __init__(self, place: Place) -> None:
        super().__init__(place)
        self.ids = RandomIds()
        self.session = 0
        self.last: str | None = None

    async def begin(self) -> None:
        self.session += 1
        self.last = None

    async def operation(self, number: int) -> None:
        await self.store.sessions.commit(self.turn(number))

    def turn(self, number: int, completes: tuple[Completion, ...] = ()) -> TurnCommit:
        node = SessionNode(
            node_id=self.ids.new("node"),
            parent_node_id=self.last,
            body={"message": {"role": "user", "parts": [{"kind": "text", "text": TEXTS[number % TURNS]}]}},
            at=AT,
        )
        self.last = node.node_id
        commit = TurnCommit(
            session_id=f"session-{self.session}",
            nodes=(node,),
            checkpoint=SessionCheckpoint(turn_index=number),
            usage=(Usage(source="turn", model="bench-model", input_tokens=500, output_tokens=500),),
            expected_revision=number,
            completes=completes,
        )
        return stamp_commit(commit, f"turn-{number}")


class ServeTurn(CommitTurn):
    """The whole life of a message: enqueued, claimed, and completed by the turn it caused. Three commits."""

    name = "holdfast enqueue + claim + turn commit"

    async def operation(self, number: int) -> None:
        session_id = f"session-{self.session}"
        draft = BatchDraft(session_id=session_id, items=(ItemDraft("turn_input", {"text": "go on"}),))
        await self.store.inbox.enqueue(draft)
        claim = await self.store.inbox.claim(
            session_id, "bench", Boundary.IDLE, ttl_us=30 * SECOND, max_batches=1, token=self.ids.new("token")
        )
        assert claim is not None, "what was enqueued can be claimed"
        await self.store.sessions.commit(self.turn(number, completes=(claim.completion(),)))
