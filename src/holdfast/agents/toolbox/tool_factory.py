"""Tool factory of the toolbox: these tools are made by a function, not decorated, so that the caller sets their
limits."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from holdfast.agents.tools import Tool, terms_of
from holdfast.engine.durable_call import CallPolicy
from holdfast.model.time import Duration


def terms(
    effect: str,
    *,
    timeout: Duration,
    key_lifetime: Duration | None = None,
    approve: Callable[..., bool] | bool | None = None,
) -> CallPolicy:
    """The call policy of a tool without a probe."""
    return terms_of(
        effect=effect,
        key_lifetime=key_lifetime,
        probe=None,
        timeout=timeout,
        receiver_delay=0,
        approve=approve,
        approval_lifetime="7d",
        on_resume=None,
        output=None,
    )


def tool(function: Callable[..., Any], name: str, terms: CallPolicy) -> Tool[..., Any]:
    return Tool(function, name=name, terms=terms)
