"""What a job may use up, and what it has used: exact integers, shared by a whole tree of jobs.

Money is counted in micro-dollars, because floats drift: a hundred thousand calls at $0.0003 must be $30.00. A
breach is a fact to act on (the job waits and asks), never a number that is silently cut. Nothing is charged
twice: replayed calls cost nothing, so what is spent follows from the journal alone.
"""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from typing import Final, Literal, TypeAlias, get_args

import msgspec

from holdfast.errors import InvalidSetting
from holdfast.model.instants import Duration, Micros, parse_duration, show_duration
from holdfast.model.limits import INTEGER_MAX

Limit: TypeAlias = Literal["usd_micros", "tokens", "tool_calls", "wall_us", "depth", "fan_out"]
Money: TypeAlias = int | str | Decimal | float

LIMITS: Final[tuple[Limit, ...]] = get_args(Limit)
DOLLAR: Final = 1_000_000

# What a tree of jobs uses up together. The others are measured anew in each job: children run side by side,
# so their wall time is not a sum, and depth and fan-out describe one job's place and children.
SHARED: Final[tuple[Limit, ...]] = ("usd_micros", "tokens", "tool_calls")


@dataclass(frozen=True, slots=True, init=False)
class Budget:
    """The most that a job and its children may use; None leaves a thing unbounded.

    Written in people's units, kept in exact ones: `Budget(usd=2, wall="10m")` has `usd_micros` 2,000,000 and
    `wall_us` 600,000,000.

    `depth` is how many levels of children there may be below the job, `fan_out` how many children it may
    start itself.
    """

    usd_micros: int | None = None
    tokens: int | None = None
    tool_calls: int | None = None
    wall_us: Micros | None = None
    depth: int | None = None
    fan_out: int | None = None

    def __init__(
        self,
        *,
        usd: Money | None = None,
        tokens: int | None = None,
        tool_calls: int | None = None,
        wall: Duration | None = None,
        depth: int | None = None,
        fan_out: int | None = None,
        usd_micros: int | None = None,
        wall_us: Micros | None = None,
    ) -> None:
        if (usd is not None and usd_micros is not None) or (wall is not None and wall_us is not None):
            raise InvalidSetting(
                "one limit is given twice", hint="Give usd or usd_micros, and wall or wall_us."
            )
        for limit, allowed in {
            "usd_micros": usd_micros if usd is None else dollars(usd),
            "tokens": tokens,
            "tool_calls": tool_calls,
            "wall_us": wall_us if wall is None else parse_duration(wall),
            "depth": depth,
            "fan_out": fan_out,
        }.items():
            object.__setattr__(self, limit, allowed)
        self.__post_init__()

    def __post_init__(self) -> None:  # also called by msgspec, which fills the fields without __init__
        for limit in LIMITS:
            allowed = getattr(self, limit)
            if allowed is not None and (type(allowed) is not int or not 0 <= allowed <= INTEGER_MAX):
                raise InvalidSetting(
                    f"{limit} is {allowed!r}", hint="A limit is a whole number from 0, or None."
                )


class Spent(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a job has used so far; `depth` is the deepest level of children it has reached."""

    usd_micros: int = 0
    tokens: int = 0
    tool_calls: int = 0
    wall_us: Micros = 0
    depth: int = 0
    fan_out: int = 0


NOTHING: Final = Spent()


class Breach(msgspec.Struct, frozen=True):
    """The first limit that does not hold."""

    limit: Limit
    allowed: int
    spent: int

    def __str__(self) -> str:
        return f"{self.limit}: {_show(self.limit, self.spent)} of {_show(self.limit, self.allowed)}"


def dollars(amount: Money) -> int:
    """Return an amount of dollars in micro-dollars; a float counts as it is printed, so 0.1 is a tenth."""
    hint = 'Write dollars as 2, 0.25 or "0.000001", nothing finer.'
    try:
        exact = Decimal(repr(amount) if isinstance(amount, float) else amount) * DOLLAR
        whole = int(exact)
    except (InvalidOperation, ValueError, TypeError, OverflowError):
        raise InvalidSetting(f"{amount!r} is not an amount of dollars", hint=hint) from None
    if isinstance(amount, bool) or whole != exact or not 0 <= whole <= INTEGER_MAX:
        raise InvalidSetting(f"{amount!r} is not an amount of dollars", hint=hint)
    return whole


def add(spent: Spent, more: Spent) -> Spent:
    """Return both together, within one job: all are sums, except depth, which is the deeper."""
    sums = {limit: getattr(spent, limit) + getattr(more, limit) for limit in LIMITS}
    return Spent(**{**sums, "depth": max(spent.depth, more.depth)})


def absorb(parent: Spent, child: Spent) -> Spent:
    """Return what a parent has spent, its child's expense included; only shared things are handed up."""
    handed_up = {limit: getattr(child, limit) for limit in SHARED}
    return add(parent, Spent(**handed_up, depth=child.depth + 1))


def breach(budget: Budget, spent: Spent, ahead: Spent = NOTHING) -> Breach | None:
    """Return the first limit that `spent` and what lies `ahead` go beyond together, or None.

    Using up a budget exactly is no breach. Ask before you act: with `ahead=Spent(tool_calls=1)` before a tool
    call, and with one token and one micro-dollar before a model call, whose price is known only afterwards.
    """
    total = add(spent, ahead)
    for limit in LIMITS:
        allowed, used = getattr(budget, limit), getattr(total, limit)
        if allowed is not None and used > allowed:
            return Breach(limit, allowed, used)
    return None


def remaining(budget: Budget, spent: Spent) -> Budget:
    """Return what is left, never below zero."""
    left: dict[str, int | None] = {}
    for limit in LIMITS:
        allowed = getattr(budget, limit)
        left[limit] = None if allowed is None else max(0, allowed - getattr(spent, limit))
    return Budget(**left)


def split(budget: Budget, parts: int) -> tuple[Budget, ...]:
    """Return budgets for children that run side by side and together cannot exceed `budget`.

    Shared limits are divided to the last unit, earlier children getting the odd ones. Wall time and fan-out
    apply to each child in full; depth is one less, and a budget without depth left cannot be split.
    """
    assert parts >= 1, f"a budget is split into one part or more: {parts}"
    if budget.depth == 0:
        raise InvalidSetting(
            "the budget allows no children", hint="Raise `depth` by one for each level of sub-agents."
        )
    shares = []
    for place in range(parts):
        share: dict[str, int | None] = {limit: getattr(budget, limit) for limit in LIMITS}
        for limit in SHARED:
            if (allowed := getattr(budget, limit)) is not None:
                share[limit] = allowed // parts + (place < allowed % parts)
        share["depth"] = None if budget.depth is None else budget.depth - 1
        shares.append(Budget(**share))
    return tuple(shares)


def _show(limit: Limit, amount: int) -> str:
    if limit == "usd_micros":
        return f"${amount // DOLLAR}.{amount % DOLLAR:06d}"
    return show_duration(amount) if limit == "wall_us" else f"{amount:,}"
