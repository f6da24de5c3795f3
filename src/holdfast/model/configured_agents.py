"""Configured agents: a name, a kind of program, and its configuration, without code of their own."""

from __future__ import annotations

from typing import Final

import msgspec

from holdfast.errors import InvalidPayload, InvalidSetting
from holdfast.model.ids import check_integer, check_name
from holdfast.model.jobs import DEFAULT_NAMESPACE
from holdfast.model.redaction import redact

ASSISTANT: Final = "assistant"
"""The kind of every configured agent: a model with instructions and tools."""

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
    """A stored agent. Its id never changes; its name is unique within the namespace."""

    agent_id: str
    name: str
    kind: str = ASSISTANT
    configuration: Configuration = Configuration()
    namespace: str = DEFAULT_NAMESPACE
    created_at: int = 0


def check_agent(agent: HostedAgent) -> HostedAgent:
    """Return the agent as it is stored, with secrets removed from its instructions; or raise an error that says what to
    change."""
    check_name(agent.agent_id, "agent id")
    check_name(agent.name, "agent name")
    config = agent.configuration
    if agent.kind != ASSISTANT:
        msg = f"{agent.kind!r} is not a kind of configured agent"
        raise InvalidSetting(msg, hint=f"Use {ASSISTANT}; other kinds are code, declared with `hf.agent`.")
    if config.model is not None:
        check_name(config.model, "model")
        provider, _, wanted = config.model.partition(":")
        if provider not in PROVIDERS or not wanted:
            msg = f"{config.model!r} is not the name of a model"
            raise InvalidPayload(msg, hint="Write anthropic:NAME, openai:NAME or scripted:FILE.")
    for tool in config.tools:
        check_name(tool, "tool name")
    if len(set(config.tools)) < len(config.tools) or len(config.tools) > TOOLS_MAX:
        msg = f"{len(config.tools)} tools, at most {TOOLS_MAX} and each once"
        raise InvalidPayload(msg, hint="Name each tool once.")
    if (
        config.context_tokens_max is not None
        and check_integer(config.context_tokens_max, "context_tokens_max") < 1
    ):
        msg = f"context_tokens_max={config.context_tokens_max} is too small"
        raise InvalidPayload(msg, hint="Leave it out, or give the most tokens of a conversation.")
    clean = redact(config.instructions)
    if clean == config.instructions:
        return agent
    return msgspec.structs.replace(agent, configuration=msgspec.structs.replace(config, instructions=clean))
