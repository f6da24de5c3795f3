"""A planner over real clients: made to call `submit_plan`, in both languages, and told what is wrong."""

from __future__ import annotations

from typing import Any

import pytest
from llmock.scenarios import Reply, ToolCall
from llmock.testing import LLMockServer

import holdfast as hf

pytestmark = pytest.mark.store("sqlite")

CHOICES: dict[str, Any] = {
    "anthropic": {"type": "tool", "name": "submit_plan"},
    "openai": {"type": "function", "function": {"name": "submit_plan"}},
}


@pytest.mark.parametrize("provider", CHOICES)
async def test_a_model_is_made_to_plan_and_corrected(
    app: hf.App, models: LLMockServer, provider: str
) -> None:
    """The first plan calls a tool that is not there; the second request says so, and its answer is followed."""

    @app.tool(effect="read_only")
    async def lookup(order: str) -> str:
        """Where an order is."""
        return f"order {order} is on its way"

    def submits(tool: str) -> Reply:
        nodes = [{"name": "find", "tool": tool, "args": {"order": "42"}}]
        return Reply(tool_calls=(ToolCall("submit_plan", {"nodes": nodes}),))

    models.state.scenarios.add(submits("look_up"), submits("lookup"))
    llm = hf.llm(f"{provider}:some-model", base_url=models.base_url(provider), api_key="test")

    @app.agent
    async def clerk() -> str:
        plan = await hf.plan(llm, "where is order 42?", tools=[lookup])
        return str((await hf.execute(plan))["find"].value)

    async with app.running():
        assert await clerk() == "order 42 is on its way"
        await llm.close()
    asked = [record.body for record in models.state.journal.records()]
    assert [one["tool_choice"] for one in asked] == [CHOICES[provider]] * 2
    assert "Where an order is." in str(asked[0])
    assert "which is not among the tools (lookup)" in str(asked[1]["messages"])
