"""Session turn: a job takes inputs from the session's inbox, and commits everything in one append.

    begin      claims the inputs in the inbox, and records which batches; the claim's token is derived from the job, so
               a worker that takes the job over holds the same claim
    poll       the same at a safe point inside the turn, for inputs that came meanwhile; that there were none is
               recorded as well, or a replay could find some and send the model another request
    commit     inputs, messages, usage, state and the end of the job: one transaction

Messages are not in the journal. They are in the inbox until the turn is committed, and in the session's nodes from
then on, under ids that are derived from the batches. So a conversation is stored once, and a replay finds it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final

import msgspec

from holdfast.engine.durable_call import READS, DurableCall
from holdfast.engine.execution import Execution
from holdfast.engine.run_outcomes import TurnOutput
from holdfast.errors import Broken, InvalidMove, StoreCorrupt
from holdfast.model.append import Extras
from holdfast.model.events import TurnCommitted
from holdfast.model.inbox import Boundary, Completion
from holdfast.model.session import (
    Frame,
    SessionCheckpoint,
    SessionNode,
    SessionView,
    TurnCommit,
    Usage,
    stamp_commit,
)
from holdfast.model.time import DAY
from holdfast.store.contract import Store
from holdfast.store.ports.sessions import HEAD, SessionScope

CLAIM_US: Final = DAY
"""Only the one job that owns the session's turn claims its inputs, so this need not be short."""

AT_ONCE: Final = 100


class Input(msgspec.Struct, frozen=True):
    """One input of a session. `node_id` is the node that it becomes in the session."""

    batch_id: str
    node_id: str
    kind: str
    payload: Any


class TurnStart(msgspec.Struct, frozen=True):
    """Start of a turn: the session as it was, and its first inputs."""

    leaf: str | None
    frame: str | None
    inputs: list[Input]


class SessionTurn:
    """The turn that this run takes. It starts with `begin` and ends with `commit`."""

    def __init__(self, execution: Execution, session_id: str) -> None:
        self._execution = execution
        self.session_id = session_id
        self.namespace = execution.owner.namespace
        self.turn_id = execution.owner.job_id
        self._claims: list[Completion] = []

    @property
    def store(self) -> Store:
        if self._execution.store is None:
            msg = f"job {self.turn_id} is a turn of a session, and there is no store here to read it from"
            raise InvalidMove(msg, hint="Replay it where its store is.")
        return self._execution.store

    async def begin(self) -> TurnStart:
        """Takes the waiting inputs. The session does not change until this turn ends."""

        async def run(_key: str) -> Any:
            view = await self.store.sessions.load(self.session_id, HEAD, namespace=self.namespace)
            claimed = await self._claim(Boundary.IDLE)
            if view is None:
                return {"leaf": None, "frame": None, "claim": claimed}
            return {"leaf": view.graph.leaf_node_id, "frame": view.frame_id, "claim": claimed}

        begun = await self._execution.call(DurableCall("turn", None, run, READS))
        return TurnStart(begun["leaf"], begun["frame"], await self._inputs(begun["claim"]))

    async def poll(self) -> list[Input]:
        """Takes inputs that came meanwhile and may join this turn."""

        async def run(_key: str) -> Any:
            return await self._claim(Boundary.ACTIVE_TURN_CHECKPOINT)

        return await self._inputs(await self._execution.call(DurableCall("poll", None, run, READS)))

    async def view(self, leaf: str | None = None) -> SessionView | None:
        """The session up to this leaf; None before its first turn."""
        return await self.store.sessions.load(
            self.session_id, SessionScope(active_path=True, leaf_node_id=leaf), namespace=self.namespace
        )

    async def head(self) -> SessionCheckpoint | None:
        """The state that the last turn left for the next; None before the first."""
        view = await self.store.sessions.load(self.session_id, HEAD, namespace=self.namespace)
        return None if view is None else view.checkpoint

    async def find_joined_turn(self) -> str:
        """The turn that took this job's message."""
        batch = await self.store.inbox.find(self.session_id, self.turn_id, namespace=self.namespace)
        if batch is None or batch.settled_by is None:
            msg = f"job {self.turn_id} has no message to answer"
            raise InvalidMove(msg, hint="Its message was cancelled, or was never sent.")
        return batch.settled_by

    async def _claim(self, boundary: Boundary) -> Any:
        claim = await self.store.inbox.claim(
            self.session_id,
            self.turn_id,
            boundary,
            ttl_us=CLAIM_US,
            max_batches=AT_ONCE,
            token=f"{self.turn_id}.{len(self._claims)}",
            fence=self._execution.owner.fence,
            namespace=self.namespace,
        )
        return None if claim is None else msgspec.to_builtins(claim.completion())

    async def _inputs(self, claimed: Any) -> list[Input]:
        if claimed is None:
            return []
        completion = msgspec.convert(claimed, Completion)
        self._claims.append(completion)
        return [item for batch_id in completion.batch_ids for item in await self._load_batch(batch_id)]

    async def _load_batch(self, batch_id: str) -> list[Input]:
        """The batch's items, from the inbox; or from the session, if the turn was committed long ago."""
        batch = await self.store.inbox.find(self.session_id, batch_id, namespace=self.namespace)
        if batch is None:
            msg = f"batch {batch_id} of session {self.session_id} is gone"
            raise StoreCorrupt(msg)
        if batch.items:
            return [
                Input(batch_id, input_node(batch_id, nth), item.kind, item.payload)
                for nth, item in enumerate(batch.items)
            ]
        inputs: list[Input] = []
        while True:
            node_id = input_node(batch_id, len(inputs))
            node = await self.store.sessions.node(self.session_id, node_id, namespace=self.namespace)
            if node is None:
                return inputs
            inputs.append(Input(batch_id, node_id, node.body["kind"], node.body["input"]))

    def commit(
        self,
        nodes: Sequence[SessionNode],
        *,
        usage: Iterable[Usage] = (),
        frames: Sequence[Frame] = (),
        checkpoint: SessionCheckpoint | None = None,
        attachments: Sequence[str] = (),
        output: Any = None,
    ) -> TurnOutput:
        """Makes the return value of the job's program: the turn is committed with the end of the job, in one append."""
        if not nodes:
            msg = "a turn without a message"
            raise Broken(msg)
        turn = TurnCommit(
            session_id=self.session_id,
            nodes=tuple(nodes),
            leaf_node_id=nodes[-1].node_id,
            frames=tuple(frames),
            frame_id=frames[-1].frame_id if frames else None,
            checkpoint=SessionCheckpoint() if checkpoint is None else checkpoint,
            usage=tuple(usage),
            completes=tuple(self._claims),
            attachments=tuple(attachments),
        )
        batches = tuple(batch for claim in self._claims for batch in claim.batch_ids)
        event = TurnCommitted(self.session_id, self.turn_id, self._execution.history.ordinal + 1, batches)
        return TurnOutput(output, event, Extras(turn=stamp_commit(turn, self.turn_id)))


def input_node(batch_id: str, nth: int) -> str:
    """The node of the nth item of a batch."""
    return batch_id if nth == 0 else f"{batch_id}.{nth}"
