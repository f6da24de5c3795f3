"""Sessions from the participant's side: send a message, read the conversation, branch from an earlier message."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, Final, Literal, Protocol, cast

import msgspec

from holdfast.agents import context
from holdfast.agents.attachments import attach
from holdfast.agents.job_handle import Host, Job
from holdfast.agents.models.messages import Message
from holdfast.agents.signatures import plain
from holdfast.engine.session_turns import Input
from holdfast.errors import InvalidMove, NotFound
from holdfast.model import canonical
from holdfast.model import session as model
from holdfast.model.inbox import BatchDraft, Delivery, ItemDraft, SlotPolicy, group
from holdfast.model.jobs import JobDraft
from holdfast.model.python_pin import HERE
from holdfast.store.ports.sessions import ACTIVE_PATH

MESSAGE: Final = "message"
_TOGETHER: Final = group("messages")

When = Literal["earliest_safe_boundary", "after_current_turn_commit"]


class Answering(Protocol):
    """The agent that takes the turns of a conversation. `given` is the input of its jobs."""

    @property
    def name(self) -> str: ...

    @property
    def queue(self) -> str: ...

    @property
    def priority(self) -> int: ...

    @property
    def given(self) -> Any: ...


def message_of(entry: Input) -> Message:
    """An input as a message for the model."""
    content = (
        entry.payload["content"]
        if isinstance(entry.payload, dict) and "content" in entry.payload
        else entry.payload
    )
    return {
        "role": "user",
        "content": content if isinstance(content, str | list) else canonical.encode(content).decode(),
    }


def conversation(view: model.SessionView, frame_id: str | None) -> list[Message]:
    """The messages of a session for the model: the summary that its frame starts from, and all messages since."""
    frame = next((candidate for candidate in view.frames if candidate.frame_id == frame_id), None)
    messages: list[Message] = []
    if frame is not None and frame.snapshot is not None:
        messages.append({"role": "user", "content": canonical.decode(frame.snapshot)})
    return messages + [message_in(node) for node in view.graph.nodes if node.frame_id == frame_id]


def message_in(node: model.SessionNode) -> Message:
    """The message that a node holds."""
    body = node.body
    if "message" in body:
        return cast("Message", body["message"])
    return message_of(Input(node.caused_by or "", node.node_id, body["kind"], body["input"]))


def draft_message(
    agent: Answering,
    session_id: str,
    content: Any,
    *,
    id: str | None = None,  # noqa: A002 - as users say it
    when: When = "earliest_safe_boundary",
    after: str | msgspec.UnsetType | None = msgspec.UNSET,
    slot: SlotPolicy = SlotPolicy.JOIN,
) -> tuple[BatchDraft, JobDraft]:
    """A message as a batch for the session's inbox, and the job that answers it."""
    payload = {"content": plain(content, "a message")}
    if after is not msgspec.UNSET:
        payload["after"] = after
    batch = BatchDraft(
        session_id=session_id,
        items=(ItemDraft(MESSAGE, payload),),
        delivery=Delivery(when),
        slot=slot if after is msgspec.UNSET else SlotPolicy.EXCLUSIVE,
        merge_key=_TOGETHER,
    )
    job = JobDraft(
        kind=agent.name,
        input=agent.given if id is None else bind_input(agent.given, batch),
        queue=agent.queue,
        priority=agent.priority,
        session_id=session_id,
        request_key=id,
        python_version=HERE,
    )
    return batch, job


def bind_input(job_input: Any, message: BatchDraft) -> Any:
    """The input of a job that answers this message and no other. The inbox drops a message's content when the batch
    is settled; this digest tells another message under the same id apart, at any time."""
    items = [[item.kind, item.payload] for item in message.items]
    digest = canonical.hex_digest(canonical.encode([items, message.delivery, message.slot]))
    return {**(job_input or {}), "message": digest}


class SessionJob(Job[str]):
    """The turn that a message is part of."""

    def __init__(self, job_id: str, host: Host, session_id: str) -> None:
        super().__init__(job_id, host, str)
        self._session_id = session_id

    async def result(self) -> str:
        """Waits until the turn is committed, and returns the answer. Waiting does not execute the job: that needs a
        worker."""
        return await self._answer(self._host.result)

    async def drive(self) -> str:
        """Executes the turn in this process, after the turns before it in the session, and returns the answer."""
        return await self._answer(self._host.drive)

    async def _answer(self, wait: Callable[[str], Awaitable[Any]]) -> str:
        output = await wait(self.id)
        while "joined" in output:
            output = await wait(output["joined"])
        node = await self._host.store.sessions.node(self._session_id, output["node"])
        if node is None:
            msg = f"the answer of job {self.id} is not in the session any more"
            raise NotFound(msg)
        return text_in(message_in(node))


def text_in(message: Message) -> str:
    content = message["content"]
    if isinstance(content, str):
        return content
    return "".join(block.get("text", "") for block in content if block.get("type") == "text")


class Session:
    """One conversation: the handle of a participant."""

    def __init__(self, session_id: str, agent: Answering, host: Callable[[], Awaitable[Host]]) -> None:
        self.id = session_id
        self._agent = agent
        self._host = host

    async def send(
        self,
        content: Any,
        *,
        id: str | None = None,  # noqa: A002 - as users say it
        when: When = "earliest_safe_boundary",
    ) -> str:
        """Sends the message, executes the turn in this process, and returns the answer."""
        return await (await self.post(content, id=id, when=when)).drive()

    async def post(
        self,
        content: Any,
        *,
        id: str | None = None,  # noqa: A002 - as users say it
        when: When = "earliest_safe_boundary",
        after: str | msgspec.UnsetType | None = msgspec.UNSET,
    ) -> SessionJob:
        """Stores the message and the job that answers it durably; a worker executes it. A second call with the same
        `id` changes nothing; other content under the same `id` is rejected.

        when: whether the message may join the running turn, or waits for its commit. after: the node that it follows,
        if not the last: a branch. None is before the first.
        """
        if context.find_drive() is not None:
            msg = "a message to a session from inside a job"
            raise InvalidMove(msg, hint="Send it from outside, or spawn an agent.")
        draft, job = draft_message(self._agent, self.id, content, id=id, when=when, after=after)
        host = await self._host()
        batch = await host.store.inbox.deliver(draft, job)
        return SessionJob(batch.batch_id, host, self.id)

    async def attach(self, data: bytes, *, media_type: str) -> Message:
        """Stores the bytes; returns the message block that names them."""
        host = await self._host()
        return await attach(host.store, self.id, data, media_type, now=host.now_us())

    async def messages(self) -> list[Message]:
        """The messages on the active path."""
        view = await self.view()
        return [] if view is None else [message_in(node) for node in view.graph.nodes]

    async def view(self) -> model.SessionView | None:
        """The stored session, up to its leaf; None before its first turn."""
        return await (await self._host()).store.sessions.load(self.id, ACTIVE_PATH)

    async def branch(self, node_id: str) -> None:
        """Continues the conversation from this node. The nodes after it stay, as a branch."""
        store = (await self._host()).store
        if await store.sessions.node(self.id, node_id) is None:
            msg = f"there is no node {node_id!r} in session {self.id!r}"
            raise NotFound(msg, hint="`await session.view()` shows the nodes.")
        await store.sessions.commit(model.TurnCommit(session_id=self.id, leaf_node_id=node_id))

    async def retry(self, node_id: str, content: Any = None) -> str:
        """The answer to an earlier message, or to `content` in its place, on a new branch beside it."""
        node = await (await self._host()).store.sessions.node(self.id, node_id)
        if node is None or node.caused_by is None:
            msg = f"node {node_id!r} of session {self.id!r} is not a message of a user"
            raise NotFound(msg, hint="Retry from a message of a person; `await session.view()` shows them.")
        new_content = content if content is not None else message_in(node)["content"]
        return await (await self.post(new_content, after=node.parent_node_id)).drive()

    def __repr__(self) -> str:
        return f"<session {self.id} of {self._agent.name}>"
