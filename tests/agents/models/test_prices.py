"""What answers cost: exact, rounded against nobody's budget, and unknown where it is."""

from __future__ import annotations

import pytest

import holdfast as hf
from holdfast.agents.models.prices import PRICES, find_price
from holdfast.agents.models.wire_format import TokenUsage


@pytest.mark.parametrize(
    "usage, micros",
    [
        (TokenUsage(input=1_000_000), 3_000_000),
        (TokenUsage(output=1), 15),
        (TokenUsage(input=10, cache_read=10), 3),
        (TokenUsage(input=4, cache_write=4), 15),
        (TokenUsage(input=1, cache_read=1), 1),
        (TokenUsage(), 0),
    ],
)
def test_a_cost_is_exact_and_rounded_up(usage: TokenUsage, micros: int) -> None:
    assert PRICES["claude-sonnet-4-5"].of(usage) == micros


def test_a_dated_issue_costs_what_its_model_costs() -> None:
    assert find_price("claude-opus-4-5-20251101", PRICES) is PRICES["claude-opus-4-5"]
    assert find_price("gpt-5-mini-2025-08-07", PRICES) is PRICES["gpt-5-mini"]
    assert find_price("gpt-5.99", PRICES) is None
    assert find_price("claude-opus-4-99", PRICES) is None, "a model that nobody knows is not its elder"


def test_prices_are_corrected() -> None:
    mine = {**PRICES, "gpt-5": hf.Price("1.0", 8)}
    found = find_price("gpt-5", mine)
    assert found is not None
    assert found.of(TokenUsage(input=1000, output=1000)) == 9000
