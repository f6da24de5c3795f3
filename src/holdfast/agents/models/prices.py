"""What answers cost: a table of prices, in dollars for a million tokens, that its users correct.

Prices change, and contracts differ. So a model that is not in the table costs nothing that anybody knows: its tokens
are counted, its money is not, and `Price` says so. Names are matched by their longest beginning, because providers add
dates to them.
"""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from typing import Final

import msgspec

from holdfast.agents.models.wire import Usage
from holdfast.model.budget import Money


class Price(msgspec.Struct, frozen=True):
    """Dollars for a million tokens. Reading from a provider's cache and writing to it have their own prices; where none
    is given they cost what input costs."""

    input: Money
    output: Money = 0
    cache_read: Money | None = None
    cache_write: Money | None = None

    def of(self, usage: Usage) -> int:
        """What this much costs, in micro-dollars, rounded up: a budget is never exceeded by rounding."""
        plain = usage.input - usage.cache_read - usage.cache_write
        parts = (
            (plain, self.input),
            (usage.output, self.output),
            (usage.cache_read, self.input if self.cache_read is None else self.cache_read),
            (usage.cache_write, self.input if self.cache_write is None else self.cache_write),
        )
        # A dollar a million tokens is a micro-dollar a token.
        exact = sum((max(tokens, 0) * Decimal(str(price)) for tokens, price in parts), Decimal(0))
        return int(exact.to_integral_value(rounding="ROUND_CEILING"))


PRICES: Final[Mapping[str, Price]] = {}
"""What providers publish. Pass `prices={…}` to `hf.wrap` or `hf.llm` to correct or to add."""


def find_price(model: str, prices: Mapping[str, Price]) -> Price | None:
    """The price of the longest name that this model's begins with."""
    fitting = [name for name in prices if model.startswith(name)]
    return prices[max(fitting, key=len)] if fitting else None
