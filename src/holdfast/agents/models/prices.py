"""Model prices: a table in dollars for a million tokens, that users correct.

Prices change, and contracts differ. So the cost of a model that is not in the table is unknown: its tokens are
counted, its money is not. A name with a date suffix is a dated version of the model without it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from decimal import Decimal
from typing import Final

import msgspec

from holdfast.agents.models.wire_format import TokenUsage
from holdfast.model.budget import Money

_DATE: Final = re.compile(r"-(\d{8}|\d{4}-\d{2}-\d{2}|latest)$")


class Price(msgspec.Struct, frozen=True):
    """Dollars for a million tokens. Reads from a provider's cache and writes to it have their own prices; by default
    they cost what input costs."""

    input: Money
    output: Money = 0
    cache_read: Money | None = None
    cache_write: Money | None = None

    def of(self, usage: TokenUsage) -> int:
        """The cost of this usage in micro-dollars, rounded up: rounding never exceeds a budget."""
        plain = usage.input - usage.cache_read - usage.cache_write
        parts = (
            (plain, self.input),
            (usage.output, self.output),
            (usage.cache_read, self.input if self.cache_read is None else self.cache_read),
            (usage.cache_write, self.input if self.cache_write is None else self.cache_write),
        )
        # One dollar for a million tokens is one micro-dollar for a token.
        exact = sum((max(tokens, 0) * Decimal(str(price)) for tokens, price in parts), Decimal(0))
        return int(exact.to_integral_value(rounding="ROUND_CEILING"))


def _usual(input_: Money, output: Money) -> Price:
    """The usual cache prices of one provider: a tenth of the input price for reads, a quarter more for writes."""
    base = Decimal(str(input_))
    return Price(input_, output, cache_read=base / 10, cache_write=base * 5 / 4)


AS_OF: Final = "2026-11"

PRICES: Final[Mapping[str, Price]] = {
    "claude-fable-5": _usual(10, 50),
    "claude-opus-5-5": Price(4, 20, cache_read="0.2", cache_write=5),
    "claude-opus-5": _usual(5, 25),
    "claude-opus-4-8": _usual(5, 25),
    "claude-opus-4-7": _usual(5, 25),
    "claude-opus-4-6": _usual(5, 25),
    "claude-opus-4-5": _usual(5, 25),
    "claude-opus-4-1": _usual(15, 75),
    "claude-opus-4": _usual(15, 75),
    "claude-sonnet-5-5": _usual(2, 10),
    "claude-sonnet-5": _usual(2, 10),
    "claude-sonnet-4-6": _usual(3, 15),
    "claude-sonnet-4-5": _usual(3, 15),
    "claude-sonnet-4": _usual(3, 15),
    "claude-haiku-4-5": _usual(1, 5),
    "gpt-5.5": Price(5, 30, cache_read="0.5"),
    "gpt-5.4": Price("2.5", 15, cache_read="0.25"),
    "gpt-5.4-mini": Price("0.75", "4.5", cache_read="0.075"),
    "gpt-5.4-nano": Price("0.2", "1.25", cache_read="0.02"),
    "gpt-5.2": Price("1.75", 14, cache_read="0.175"),
    "gpt-5.1": Price("1.25", 10, cache_read="0.125"),
    "gpt-5": Price("1.25", 10, cache_read="0.125"),
    "gpt-5-mini": Price("0.25", 2, cache_read="0.025"),
    "gpt-5-nano": Price("0.05", "0.4", cache_read="0.005"),
    "gpt-4.1": Price(2, 8, cache_read="0.5"),
    "gpt-4.1-mini": Price("0.4", "1.6", cache_read="0.1"),
    "gpt-4o": Price("2.5", 10, cache_read="1.25"),
    "gpt-4o-mini": Price("0.15", "0.6", cache_read="0.075"),
    "o3": Price(2, 8, cache_read="0.5"),
    "o4-mini": Price("1.1", "4.4", cache_read="0.275"),
}
"""The published prices of the providers, as of `AS_OF`. Pass `prices={…}` to `hf.wrap` or `hf.llm` to correct or to
add."""


def find_price(model: str, prices: Mapping[str, Price]) -> Price | None:
    """The price of this model, or of the model that it is a dated version of."""
    return prices.get(model) or prices.get(_DATE.sub("", model))
