"""Sessions: conversations that outlive jobs, and the turns that advance them.

    @hf.session
    async def clerk(turn: hf.Turn) -> str:
        turn.state = {"asked": (turn.state or {"asked": 0})["asked"] + 1}
        return f"{len(turn.inputs)} new, {turn.state['asked']} turns so far"

    answer = await clerk.session("ada").send("hello")

A message is one batch in the session's inbox and one job, in one transaction. The job is a turn: it claims the
waiting batches, and when it ends, its inputs, messages, state and its own completion are committed together. A
message that arrives during a turn joins it at the next safe point, or waits for its commit, as its sender chose.
"""

from __future__ import annotations

import functools
import inspect
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from typing import Any, Final, cast

import msgspec

from holdfast.agents import context
from holdfast.agents.attachments import find_attachments, inline_attachments
from holdfast.agents.context import Context
from holdfast.agents.conversation import Session, conversation, message_of
from holdfast.agents.job_handle import Host
from holdfast.agents.models.messages import Message
from holdfast.agents.models.wire_format import TokenUsage
from holdfast.agents.signatures import plain
from holdfast.engine import session_turns
from holdfast.engine.execution import Execution
from holdfast.engine.run_outcomes import TurnOutput
from holdfast.engine.session_turns import Input
from holdfast.errors import InvalidMove, InvalidSetting
from holdfast.model import canonical
from holdfast.model import session as model
from holdfast.model.ids import check_name

REMEMBERED: Final = 64


class Turn:
    """One advance of a session: the history that it starts from, its inputs, and its messages."""

    def __init__(
        self,
        engine: session_turns.SessionTurn,
        start: session_turns.TurnStart,
        history: list[Message],
        state: Any,
    ) -> None:
        self._engine = engine
        self._leaf = start.leaf
        self._frame = start.frame
        self._nodes: list[model.SessionNode] = []
        self._usage: list[model.Usage] = []
        self._frames: list[model.Frame] = []
        self.session_id = engine.session_id
        self.begins_at = f"node:{start.leaf}" if start.leaf else f"session:{engine.session_id}"
        """The name under which the messages before this turn are stored."""
        self.inputs: list[Input] = []
        self.history = history
        """The messages before this turn."""
        self.said: list[Message] = []
        """The messages of this turn."""
        self.state = state
        """The handler's own state: stored with the turn, and available in the next one."""
        self._take(start.inputs)

    async def poll(self) -> list[Input]:
        """Claims the messages that have arrived since and may join this turn. A safe point: no step is half done
        here."""
        arrived = await self._engine.poll()
        self._take(arrived)
        return arrived

    def _take(self, arrived: list[Input]) -> None:
        self.inputs += arrived
        for entry in arrived:
            message = message_of(entry)
            body = {"kind": entry.kind, "input": entry.payload}
            self._add(message, entry.node_id, entry.batch_id, body)

    def say(
        self,
        message: Mapping[str, Any],
        *,
        source: str = "",
        model_name: str = "",
        usage: TokenUsage | None = None,
    ) -> None:
        """Appends the message to the conversation; durable when the turn is committed."""
        node_id = f"{self._engine.turn_id}.said.{len(self._nodes)}"
        content = dict(message)
        self._add(content, node_id, None, {"message": content})
        if usage is not None:
            self.use(source=source, model_name=model_name, usage=usage)

    def use(self, *, source: str, model_name: str, usage: TokenUsage) -> None:
        """Adds this usage to the session's account."""
        used = model.Usage(
            source=source,
            model=model_name,
            input_tokens=usage.input,
            output_tokens=usage.output,
            cached_input_tokens=usage.cache_read,
        )
        self._usage.append(used)

    def _add(self, message: Message, node_id: str, caused_by: str | None, body: Any) -> None:
        self.said.append(message)
        node = model.SessionNode(
            node_id=node_id,
            parent_node_id=self._leaf,
            body=body,
            caused_by=caused_by,
            frame_id=self._frame,
        )
        self._nodes.append(node)
        self._leaf = node_id

    async def messages(self) -> list[Message]:
        """All messages so far, for the model."""
        store, namespace = self._engine.store, self._engine.namespace
        return await inline_attachments(store, namespace, [*self.history, *self.said])

    @property
    def leaf(self) -> str | None:
        """The last node of the conversation."""
        return self._leaf

    def new_frame(self, summary: str, *, reason: str) -> None:
        """Starts a new frame from this summary; the earlier messages stay in the session."""
        frame = model.Frame(
            frame_id=f"{self._engine.turn_id}.frame",
            previous_frame_id=self._frame,
            reason=reason,
            caused_by=self._engine.turn_id,
            snapshot=canonical.encode(summary),
        )
        self._frames.append(frame)
        self._frame = frame.frame_id
        self.begins_at = f"frame:{frame.frame_id}"
        self.history = [{"role": "user", "content": summary}]
        self._nodes = [msgspec.structs.replace(node, frame_id=frame.frame_id) for node in self._nodes]

    def commit(self) -> TurnOutput:
        """The result of the job: its completion commits the whole turn, and the last node is its output."""
        state = None if self.state is None else canonical.encode(plain(self.state, "the state of a session"))
        return self._engine.commit(
            self._nodes,
            usage=self._usage,
            frames=self._frames,
            attachments=find_attachments(self.said),
            checkpoint=model.SessionCheckpoint(execution_state=state),
            output={"node": self._leaf},
        )


Handler = Callable[[Turn], Coroutine[Any, Any, Any]]


class SessionAgent:
    """The code that takes a session's turns. Made by `hf.session`."""

    def __init__(
        self,
        handler: Handler,
        *,
        name: str,
        queue: str,
        priority: int,
        host: Callable[[], Awaitable[Host]],
    ) -> None:
        functools.update_wrapper(cast("Any", self), handler)
        self.name = check_name(name, "agent name")
        self.queue = queue
        self.priority = priority
        self.given: Any = None
        self._handler = handler
        self._host = host
        self._paths: OrderedDict[tuple[str, str | None], list[Message]] = OrderedDict()

    def session(self, session_id: str) -> Session:
        """The conversation of this name. It begins with its first message."""
        return Session(check_name(session_id, "session id"), self, self._host)

    async def program(self, execution: Execution, _given: Any) -> Any:
        """The program that a worker runs for a message: a turn, or nothing if an earlier turn included the message."""
        context.enter(execution, Context(execution.owner.job_id, execution.owner.namespace, self.name))
        session_id = execution.owner.session_id
        if session_id is None:
            msg = f"job {execution.owner.job_id} is no turn of a session"
            raise InvalidMove(msg, hint=f"Send a message: `await {self.name}.session(…).send(…)`.")
        engine = session_turns.SessionTurn(execution, session_id)
        start = await engine.begin()
        if not start.inputs:
            return {"joined": await engine.find_joined_turn()}
        start = await _branched(engine, start)
        history, state = await self._loaded(engine, start)
        turn = Turn(engine, start, history, state)
        reply = await self._handler(turn)
        if isinstance(reply, str):
            turn.say({"role": "assistant", "content": reply})
        committed = turn.commit()
        assert turn.leaf is not None, "a turn has an input"
        self._remember(session_id, turn.leaf, [*turn.history, *turn.said])
        return committed

    async def _loaded(
        self, engine: session_turns.SessionTurn, start: session_turns.TurnStart
    ) -> tuple[list[Message], Any]:
        """The conversation so far, and the state after it. The conversation is cached between its turns, so that the
        two hundredth turn costs as much as the tenth."""
        head = await engine.head()
        state = (
            None if head is None or head.execution_state is None else canonical.decode(head.execution_state)
        )
        cached = self._paths.get((engine.session_id, start.leaf))
        if cached is not None:
            return cached, state
        view = await engine.view(start.leaf) if start.leaf is not None else None
        return ([] if view is None else conversation(view, start.frame)), state

    def _remember(self, session_id: str, leaf: str, messages: list[Message]) -> None:
        self._paths[session_id, leaf] = messages
        if len(self._paths) > REMEMBERED:
            self._paths.popitem(last=False)

    def __repr__(self) -> str:
        return f"<session {self.name}>"


async def _branched(
    engine: session_turns.SessionTurn, start: session_turns.TurnStart
) -> session_turns.TurnStart:
    """The start of the turn: a message may name the node that it follows; then the turn is a branch there, in the
    frame of that node."""
    payload = start.inputs[0].payload
    if not isinstance(payload, dict) or "after" not in payload:
        return start
    leaf = payload["after"]
    if leaf is None:
        return msgspec.structs.replace(start, leaf=None, frame=None)
    node = await engine.store.sessions.node(engine.session_id, leaf, namespace=engine.namespace)
    if node is None:
        msg = f"there is no node {leaf!r} in session {engine.session_id!r} any more"
        raise InvalidMove(msg, hint="Send the message again, behind a node that is there.")
    return msgspec.structs.replace(start, leaf=leaf, frame=node.frame_id)


def check_handler(handler: Any) -> None:
    """Checks that the handler is an async function; raises an error that says how to write it."""
    if not inspect.iscoroutinefunction(handler):
        msg = f"the session {getattr(handler, '__name__', handler)!r} is not declared with `async def`"
        raise InvalidSetting(msg, hint="Write it as `async def`, with one parameter: the turn.")
