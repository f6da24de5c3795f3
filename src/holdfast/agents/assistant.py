"""The built-in assistant: a conversation with a model that may use tools, durable at every point.

    helper = hf.Assistant("helper", model="anthropic:claude-sonnet-4-5", tools=[lookup, refund])
    answer = await helper.session("ada").send("where is order 42?")

A turn requests a reply from the model, runs the tools that the reply calls, and repeats this until a reply calls
none. Between rounds it polls for new messages, and the model sees them in the same turn. When the conversation has
outgrown `context_tokens_max`, it continues from a summary, in a new frame; the earlier messages stay in the session.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Final

from holdfast.agents.conversation import text_in
from holdfast.agents.job_handle import Host
from holdfast.agents.models.builtin import BUILT_IN
from holdfast.agents.models.durable_request import KnownRequest
from holdfast.agents.models.messages import user
from holdfast.agents.models.model import Model, Reply, llm
from holdfast.agents.plans import execute, plan
from holdfast.agents.schemas import Callee
from holdfast.agents.sessions import SessionAgent, Turn
from holdfast.agents.signatures import plain
from holdfast.agents.tool_calls import run_tools
from holdfast.model import canonical
from holdfast.model.jobs import DEFAULT_QUEUE
from holdfast.model.limits import PRIORITY_DEFAULT
from holdfast.model.plan import Plan

CONTEXT_TOKENS_MAX: Final = 100_000
_SUMMARISE: Final = (
    "Summarise this conversation for yourself: you will go on from the summary alone. Keep every fact, name, number, "
    "decision and open question that may still matter, and what you have promised. Write nothing else."
)
_DONE: Final = "This was done, by a plan: "
_BEFORE: Final = "What was said before, in short: "


Planner = Callable[[str], Awaitable[Plan]]


class Assistant(SessionAgent):
    """A model with tools, one session for each conversation."""

    def __init__(
        self,
        name: str,
        *,
        model: str | Model | Sequence[Any] | None = None,
        instructions: str = "",
        tools: Sequence[Callee] = (),
        planner: str | Model | Sequence[Any] | Planner | None = None,
        context_tokens_max: int = CONTEXT_TOKENS_MAX,
        queue: str = DEFAULT_QUEUE,
        priority: int = PRIORITY_DEFAULT,
        host: Callable[[], Awaitable[Host]],
    ) -> None:
        super().__init__(self._take_turn, name=name, queue=queue, priority=priority, host=host)
        chosen = BUILT_IN if model is None else model
        self.model = _model_of(chosen)
        self.planner: Any = planner if planner is None or callable(planner) else _model_of(planner)
        self.instructions = instructions
        self.tools = tuple(tools)
        self.context_tokens_max = context_tokens_max

    async def _take_turn(self, turn: Turn) -> None:
        if (turn.state or {}).get("context_tokens", 0) > self.context_tokens_max:
            await self._go_on_from_a_summary(turn)
        if self.planner is not None:
            await self._follow_a_plan(turn)
        while True:
            reply = await self._ask(turn)
            if reply.calls:
                turn.say(dict(await run_tools(reply, self.tools)))
            new_messages = await turn.poll()
            if not reply.calls and not new_messages:
                return

    async def _follow_a_plan(self, turn: Turn) -> None:
        """Makes a plan once, executes it, and appends its outcomes to the turn for the model."""
        goal = " ".join(text_in(message) for message in turn.said)
        steps = await plan(self.planner, goal, tools=self.tools)
        outcomes = await execute(steps, tools=self.tools, on_failure="skip_dependents")
        values = {
            name: outcome.value if outcome.succeeded else outcome.status for name, outcome in outcomes.items()
        }
        turn.say(user(f"{_DONE}{canonical.encode(plain(values, 'the outcome of a plan')).decode()}"))

    async def _ask(self, turn: Turn) -> Reply:
        reply = await self.model.ask(
            await turn.messages(),
            instructions=self.instructions,
            tools=self.tools,
            known=KnownRequest(len(turn.history), turn.begins_at),
        )
        turn.say(reply.message, source=self.name, model_name=self.model.name, usage=reply.usage)
        turn.state = {"context_tokens": reply.usage.tokens}
        return reply

    async def _go_on_from_a_summary(self, turn: Turn) -> None:
        reply = await self.model.ask(
            [*turn.history, user(_SUMMARISE)],
            instructions=self.instructions,
            known=KnownRequest(len(turn.history), turn.begins_at),
        )
        turn.use(source=self.name, model_name=self.model.name, usage=reply.usage)
        turn.new_frame(_BEFORE + reply.text, reason="compaction")


def _model_of(name: Any) -> Model:
    return name if isinstance(name, Model) else llm(name)
