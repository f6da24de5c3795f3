"""Agents that are configured, not written: a name, a kind of program, and what that program is told."""

from __future__ import annotations

from typing import Final

import msgspec

from holdfast.errors import InvalidPayload, InvalidSetting
from holdfast.model.ids import check_integer, check_name
from holdfast.model.jobs import DEFAULT_NAMESPACE
from holdfast.model.redaction import redact

ASSISTANT: Final = "assistant"
"""The kind of every agent that is configured: a model with instructions and tools."""

TOOLS_MAX: Final = 128
PROVIDERS: Final = ("anthropic", "openai", "scripted")


class Configuration(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Configuration of an assistant. Without a model it answers from a script that explains how to choose one. Tools
    are names of tools of the application."""

    model: str | None = None
    instructions: str = ""
    tools: tuple[str, ...] = ()
    context_tokens_max: int | None = None


class HostedAgent(msgspec.Struct, frozen=True, kw_only=True):
    """A stored agent. Its id stays; its name is its own within the namespace."""

    agent_id: str
    name: str
    kind: str = ASSISTANT
    configuration: Configuration = Configuration()
    namespace: str = DEFAULT_NAMESPACE
    created_at: int = 0


def check_agent(agent: HostedAgent) -> HostedAgent:
    """The agent as it is stored, without secrets in what it is told; or an error that says what to change."""
    check_name(agent.agent_id, "agent id")
    check_name(agent.name, "agent name")
    told = agent.configuration
    if agent.kind != ASSISTANT:
        msg = f"{agent.kind!r} is not a kind of configured agent"
        raise InvalidSetting(msg, hint=f"Use {ASSISTANT}; other kinds are code, declared with `hf.agent`.")
    if told.model is not None:
        check_name(told.model, "model")
        provider, _, wanted = told.model.partition(":")
        if provider not in PROVIDERS or not wanted:
            msg = f"{told.model!r} is not the name of a model"
            raise InvalidPayload(msg, hint="Write anthropic:NAME, openai:NAME or scripted:FILE.")
    for tool in told.tools:
        check_name(tool, "tool name")
    if len(set(told.tools)) < len(told.tools) or len(told.tools) > TOOLS_MAX:
        msg = f"{len(told.tools)} tools, at most {TOOLS_MAX} and each once"
        raise InvalidPayload(msg, hint="Name each tool once.")
    if (
        told.context_tokens_max is not None
        and check_integer(told.context_tokens_max, "context_tokens_max") < 1
    ):
        msg = f"context_tokens_max={told.context_tokens_max} is too small"
        raise InvalidPayload(msg, hint="Leave it out, or give the most tokens of a conversation.")
    clean = redact(told.instructions)
    if clean == told.instructions:
        return agent
    return msgspec.structs.replace(agent, configuration=msgspec.structs.replace(told, instructions=clean))
