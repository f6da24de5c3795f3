"""Budgets: what a job may use and what it has used, in exact integers, shared by a whole tree of jobs.

Money is counted in micro-dollars, because floats drift: a hundred thousand calls at $0.0003 must be $30.00. When a
limit is reached, the job records that and waits for a person; the runtime never lowers an amount silently. Nothing is
charged twice: replayed calls cost nothing, so the account follows from the journal alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from typing import Final, Literal, TypeAlias, get_args

import msgspec

from holdfast.errors import InvalidSetting
from holdfast.model import events as e
from holdfast.model.limits import INTEGER_MAX
from holdfast.model.states import WaitReason
from holdfast.model.step_keys import NO_ARGS
from holdfast.model.time import MINUTE, SECOND, Duration, Micros, parse_duration, show_duration

Limit: TypeAlias = Literal["usd_micros", "tokens", "tool_calls", "wall_us", "depth", "fan_out"]
Money: TypeAlias = int | str | Decimal | float

LIMITS: Final[tuple[Limit, ...]] = get_args(Limit)
DOLLAR: Final = 1_000_000

# Amounts that a tree of jobs shares. The others are not sums: wall time is counted from the creation of the job that
# declared the budget, and depth and fan-out describe one job's place and children.
SHARED: Final[tuple[Limit, ...]] = ("usd_micros", "tokens", "tool_calls")


@dataclass(frozen=True, slots=True, init=False)
class Budget:
    """The most that a job and its children may use; None means no limit.

    Declared in human units, kept in exact ones: `Budget(usd=2, wall="10m")` has `usd_micros` 2,000,000 and `wall_us`
    600,000,000.

    `wall` counts from the job's creation, for its children too. `depth` is how many levels of children there may be
    below the job, `fan_out` how many children any one job of the tree may start.
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
                "a limit is given twice", hint="Give either usd or usd_micros, and either wall or wall_us."
            )
        for limit, allowed in {
            "usd_micros": usd_micros if usd is None else parse_dollars(usd),
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
ONE_CALL: Final = Spent(tool_calls=1)


class Breach(msgspec.Struct, frozen=True):
    """The first limit that is exceeded."""

    limit: Limit
    allowed: int
    spent: int

    def __str__(self) -> str:
        return f"{self.limit}: {show(self.limit, self.spent)} of {show(self.limit, self.allowed)}"


class Charge(msgspec.Struct, frozen=True):
    """An amount to add to one budget's account."""

    budget_id: str
    usd_micros: int = 0
    tokens: int = 0
    tool_calls: int = 0


class LimitRaise(msgspec.Struct, frozen=True):
    """New minimum limits of one budget. Limits that it does not name stay, and none is lowered."""

    budget_id: str
    limits: Budget


class BudgetAccount(msgspec.Struct, frozen=True, kw_only=True):
    """A budget and what the whole tree below has used of it. Field order is the order of the columns.

    `budget_id` is the id of the job that declared it; `depth` and `created_at` are that job's.
    """

    budget_id: str
    namespace: str
    depth: int
    created_at: int
    limits: Budget
    usd_micros: int = 0
    tokens: int = 0
    tool_calls: int = 0

    @property
    def spent(self) -> Spent:
        return Spent(usd_micros=self.usd_micros, tokens=self.tokens, tool_calls=self.tool_calls)


def parse_dollars(amount: Money) -> int:
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
    """Return what a parent has spent, with its child's spending; only shared amounts count for the parent."""
    handed_up = {limit: getattr(child, limit) for limit in SHARED}
    return add(parent, Spent(**handed_up, depth=child.depth + 1))


def find_breach(budget: Budget, spent: Spent, ahead: Spent = NOTHING) -> Breach | None:
    """Return the first limit that `spent` and `ahead` together exceed, or None.

    Using a budget up exactly is no breach. Check before the call: with `ahead=Spent(tool_calls=1)` before a tool call,
    and with one token and one micro-dollar before a model call, whose price is known only afterwards.
    """
    total = add(spent, ahead)
    for limit in LIMITS:
        allowed, used = getattr(budget, limit), getattr(total, limit)
        if allowed is not None and used > allowed:
            return Breach(limit, allowed, used)
    return None


def remaining(budget: Budget, spent: Spent) -> Budget:
    """Return what remains, never below zero."""
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
            "the budget does not allow child jobs at this depth",
            hint="Raise `depth` by one for each level of sub-agents.",
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


def to_json(budget: Budget) -> dict[str, int]:
    """The budget as JSON: only the limits that are set."""
    limits = {limit: getattr(budget, limit) for limit in LIMITS}
    return {limit: allowed for limit, allowed in limits.items() if allowed is not None}


def read(limits: Mapping[str, int]) -> Budget:
    """The budget that `to_json` wrote."""
    return msgspec.convert(limits, Budget)


def raise_limits(budget: Budget, least: Budget) -> Budget:
    """The budget with each limit raised to at least that of `least`. The order of several raises does not matter."""
    limits = to_json(budget)
    return read({limit: max(allowed, to_json(least).get(limit, 0)) for limit, allowed in limits.items()})


class BudgetStops:
    """The budget limits that have stopped a job, as its journal records them."""

    def __init__(self) -> None:
        self.allowed: dict[tuple[str, str], int] = {}
        """By budget and limit: the amount that was allowed when the limit was reached. Cleared when a person raises the
        budget."""
        self.sleeps = 0
        """How often the job has suspended because of them since."""

    def take(self, event: e.BudgetReached | e.BudgetRaised | e.JobWaiting) -> None:
        match event:
            case e.BudgetReached():
                self.allowed[event.budget_id, event.limit] = event.allowed
            case e.BudgetRaised():
                self.allowed, self.sleeps = {}, 0
            case e.JobWaiting(reason=WaitReason.BUDGET):
                self.sleeps += 1


# ── the cost of events ────────────────────────────────────────────────────────────────────────────

CHARGE_MAX: Final = 10**12
"""Upper bound of one charge: a provider that reports more is wrong, and no account may overflow."""


def cost(event: e.Event) -> Spent:
    """What one event adds to the accounts of its job. An intent counts once for its step and generation; the caller
    leaves a resend out, see `engine.budgets` and `verify`."""
    match event:
        case e.StepFinished(args_digest=digest):
            return NOTHING if digest == NO_ARGS else ONE_CALL
        case e.ToolCalled():
            return ONE_CALL
        case e.CallCancelled(made=True):
            return ONE_CALL
        case e.LlmResponded(usage=dict() as usage):
            tokens = _amount(usage.get("input")) + _amount(usage.get("output"))
            return Spent(usd_micros=_amount(usage.get("usd_micros")), tokens=min(tokens, CHARGE_MAX))
        case _:
            return NOTHING


def _amount(reported: object) -> int:
    return min(max(reported, 0), CHARGE_MAX) if type(reported) is int else 0


OPTIONS: Final[Mapping[str, str]] = {
    "usd_micros": "--usd",
    "tokens": "--tokens",
    "tool_calls": "--tool-calls",
    "wall_us": "--wall",
    "depth": "--depth",
    "fan_out": "--fan-out",
}
"""The option that raises each limit on the command line."""

WORDS: Final[Mapping[str, str]] = {
    "usd_micros": "spent",
    "tokens": "tokens",
    "tool_calls": "tool calls",
    "wall_us": "of time",
    "depth": "levels of children",
    "fan_out": "children of one job",
}


def format_amount(limit: str, amount: int) -> str:
    """An amount as `Budget(usd=…)` and `Budget(wall=…)` parse it."""
    if limit == "usd_micros":
        return f"{Decimal(amount) / DOLLAR:f}"
    return show_duration(amount).replace(" ", "") if limit == "wall_us" else str(amount)


def show(limit: str, amount: int) -> str:
    """An amount for display; a time of a minute or more is cut to whole seconds."""
    if limit == "usd_micros":
        return f"${amount // DOLLAR}.{amount % DOLLAR:06d}"
    if limit == "wall_us":
        return show_duration(amount - amount % SECOND if amount >= MINUTE else amount)
    return f"{amount:,}"
