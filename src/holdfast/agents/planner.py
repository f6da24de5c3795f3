"""Planner: a model that returns a plan for a goal, from a list of tools, and corrects it when it is invalid."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any, Final

from holdfast.agents.models.messages import Said, user
from holdfast.agents.models.model import Model
from holdfast.agents.schemas import Callee, describe_tool, parameters_of
from holdfast.errors import InvalidPlan, Misuse
from holdfast.model.plan import Plan

TRIES: Final = 3
SUBMIT: Final = "submit_plan"

_INSTRUCTIONS: Final = """\
You make plans. A plan is a list of nodes; each node calls one of the tools below, once.
Nodes that do not depend on each other run at the same time. A node waits for those named in its "after", and for \
those that its arguments refer to.
An argument, or any part of one, may be the output of another node: {"$ref": "name"} is the whole output, and
{"$ref": "name", "path": ["items", 0, "id"]} one place in it.
Use as few nodes as the goal needs. Answer by calling submit_plan.

Tools:
"""


async def make_plan(
    model: Model, goal: str, offered: Mapping[str, Callee], check: Callable[[Plan], None]
) -> Plan:
    """The model's first plan that passes the check. A rejected plan goes back to the model, with the reason."""
    descriptions = [
        {"tool": name, "description": describe_tool(callee), "arguments": parameters_of(callee)}
        for name, callee in offered.items()
    ]
    instructions = _INSTRUCTIONS + "\n".join(
        json.dumps(description, ensure_ascii=False) for description in descriptions
    )
    messages: list[Said] = [user(goal)]
    why: Misuse = InvalidPlan("the model did not return a plan")
    for _ in range(TRIES):
        reply = await model.ask(
            messages, instructions=instructions, tools=[_submit(offered)], must_call=SUBMIT
        )
        messages.append(reply.message)
        calls = [call for call in reply.calls if call.name == SUBMIT]
        if not calls:
            why = InvalidPlan("the model did not return a plan")
            answers = [_answer(call.id, f"Call {SUBMIT}.") for call in reply.calls]
            messages.append(user(answers or f"Call {SUBMIT}."))
            continue
        try:
            candidate = Plan.from_json(calls[0].args)
            check(candidate)
        except Misuse as error:
            why = error
            reason = f"This plan cannot work: {error}. {error.hint}"
            messages.append(user([_answer(call.id, reason) for call in reply.calls]))
            continue
        return candidate
    msg = f"{model.name} returned no valid plan in {TRIES} attempts: {why}"
    raise InvalidPlan(msg, hint="Describe the goal in more detail, or improve the descriptions of the tools.")


def _answer(call_id: str, text: str) -> dict[str, Any]:
    return {"type": "tool_result", "tool_use_id": call_id, "content": text, "is_error": True}


def _submit(offered: Mapping[str, Callee]) -> dict[str, Any]:
    node = {
        "type": "object",
        "properties": {
            "name": {"type": "string", "description": "Its own name, which no other node has."},
            "tool": {"type": "string", "enum": list(offered)},
            "args": {"type": "object", "description": "The tool's arguments by name; parts may be $ref."},
            "after": {"type": "array", "items": {"type": "string"}, "description": "Nodes to wait for."},
        },
        "required": ["name", "tool", "args"],
        "additionalProperties": False,
    }
    schema = {
        "type": "object",
        "properties": {"nodes": {"type": "array", "items": node}},
        "required": ["nodes"],
        "additionalProperties": False,
    }
    return {"name": SUBMIT, "description": "Submit the plan.", "input_schema": schema}
