"""Budgets count exactly and say what went over."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.errors import InvalidSetting
from holdfast.model import events as e
from holdfast.model.budget import (
    CHARGE_MAX,
    LIMITS,
    NOTHING,
    ONE_CALL,
    OPTIONS,
    SHARED,
    WORDS,
    Breach,
    Budget,
    Spent,
    absorb,
    add,
    cost,
    find_breach,
    format_amount,
    parse_dollars,
    raise_limits,
    read,
    remaining,
    show,
    split,
    to_json,
)
from holdfast.model.step_keys import NO_ARGS
from holdfast.model.time import MINUTE

amounts = st.integers(0, 10**12)
budgets = st.builds(
    lambda drawn: Budget(**drawn), st.fixed_dictionaries({limit: st.none() | amounts for limit in LIMITS})
)
spendings = st.builds(lambda drawn: Spent(**drawn), st.fixed_dictionaries(dict.fromkeys(LIMITS, amounts)))


def test_people_write_dollars_and_minutes() -> None:
    """Build a budget the way the guide shows; it is kept in exact units, and both spellings are one budget."""
    budget = Budget(usd=2, tool_calls=40, wall="10m")
    assert (budget.usd_micros, budget.tool_calls, budget.wall_us, budget.tokens) == (
        2_000_000,
        40,
        10 * MINUTE,
        None,
    )
    assert budget == Budget(usd_micros=2_000_000, tool_calls=40, wall_us=10 * MINUTE)


@given(budgets)
def test_a_budget_survives_json(budget: Budget) -> None:
    """Write and read it with msgspec, as an event would."""
    assert msgspec.json.decode(msgspec.json.encode(budget), type=Budget) == budget


@pytest.mark.parametrize(
    "fields",
    [
        {"usd": 1, "usd_micros": 1},
        {"wall": 1, "wall_us": 1},
        {"tokens": -1},
        {"tokens": 1.5},
        {"tool_calls": True},
        {"depth": 2**63},
        {"usd": -1},
    ],
)
def test_budgets_that_make_no_sense_are_refused(fields: dict[str, Any]) -> None:
    """Give limits twice, below zero, broken, and as JSON."""
    with pytest.raises(InvalidSetting):
        Budget(**fields)


def test_json_is_checked_too() -> None:
    """Read a budget with a negative limit: msgspec fills the fields without the constructor."""
    with pytest.raises(InvalidSetting):
        msgspec.json.decode(b'{"tokens":-1}', type=Budget)


@pytest.mark.parametrize(
    "amount, micros",
    [(2, 2_000_000), ("0.000001", 1), (0.1, 100_000), (Decimal("0.25"), 250_000), ("1e-6", 1), (0, 0)],
)
def test_money_is_exact(amount: Any, micros: int) -> None:
    """Convert amounts that floats cannot hold."""
    assert parse_dollars(amount) == micros


@pytest.mark.parametrize(
    "amount", ["", "x", "0.0000001", 1e-9, float("nan"), float("inf"), -1, True, None, "1e30"]
)
def test_other_amounts_are_refused(amount: Any) -> None:
    """Convert what is no money, negative, too fine or too much."""
    with pytest.raises(InvalidSetting):
        parse_dollars(amount)


@given(spendings, spendings, spendings)
def test_adding_does_not_depend_on_the_order(a: Spent, b: Spent, c: Spent) -> None:
    """Add in every order, and add nothing: parallel calls finish as they like."""
    assert add(a, b) == add(b, a)
    assert add(add(a, b), c) == add(a, add(b, c))
    assert add(a, NOTHING) == a


@given(budgets, spendings)
def test_a_breach_is_the_first_limit_that_does_not_hold(budget: Budget, spent: Spent) -> None:
    """Compare with a plain search; a limit used up exactly is no breach."""
    over = [
        limit
        for limit in LIMITS
        if (cap := getattr(budget, limit)) is not None and getattr(spent, limit) > cap
    ]
    found = find_breach(budget, spent)
    assert (found.limit if found else None) == (over[0] if over else None)


def test_asking_ahead_stops_the_call_that_would_go_over() -> None:
    """Spend 40 of 40 calls: fine as it is, a breach with one more."""
    budget, spent = Budget(tool_calls=40), Spent(tool_calls=40)
    assert find_breach(budget, spent) is None
    assert find_breach(budget, spent, ahead=Spent(tool_calls=1)) == Breach("tool_calls", 40, 41)


def test_a_breach_reads_well() -> None:
    """Show money and time in people's units."""
    assert str(Breach("usd_micros", 2_000_000, 2_000_100)) == "usd_micros: $2.000100 of $2.000000"
    assert str(Breach("wall_us", 10 * MINUTE, 11 * MINUTE)) == "wall_us: 11 m of 10 m"
    assert str(Breach("tokens", 1000, 1001)) == "tokens: 1,001 of 1,000"


@given(budgets, spendings)
def test_what_remains_can_be_spent_and_no_more(budget: Budget, spent: Spent) -> None:
    """Spend exactly what remains, then one more of each."""
    left = remaining(budget, spent)
    for limit in LIMITS:
        cap = getattr(budget, limit)
        assert getattr(left, limit) == (None if cap is None else max(0, cap - getattr(spent, limit)))


@given(budgets.filter(lambda budget: budget.depth != 0), st.integers(1, 50))
def test_split_gives_away_everything_and_nothing_twice(budget: Budget, parts: int) -> None:
    """Sum the parts of shared limits; the others apply to each child, one level down."""
    shares = split(budget, parts)
    assert len(shares) == parts
    for limit in SHARED:
        given_away = [getattr(share, limit) for share in shares]
        if getattr(budget, limit) is None:
            assert set(given_away) == {None}
        else:
            assert sum(given_away) == getattr(budget, limit)
            assert max(given_away) - min(given_away) <= 1
    assert {(share.wall_us, share.fan_out) for share in shares} == {(budget.wall_us, budget.fan_out)}
    assert shares[0].depth == (None if budget.depth is None else budget.depth - 1)


def test_no_children_below_the_last_level() -> None:
    """Split a budget without depth."""
    with pytest.raises(InvalidSetting, match="not allow child jobs"):
        split(Budget(depth=0), 1)


def test_a_parent_answers_for_its_children() -> None:
    """Absorb a child: its money, tokens and calls, one level deeper; not its time nor its own children."""
    child = Spent(usd_micros=5, tokens=6, tool_calls=7, wall_us=8, depth=2, fan_out=3)
    total = absorb(Spent(usd_micros=1, depth=1, fan_out=1), child)
    assert total == Spent(usd_micros=6, tokens=6, tool_calls=7, depth=3, fan_out=1)


# ── what facts cost ───────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    "event, price",
    [
        (e.StepFinished("0/look#1", "digest"), ONE_CALL),
        (e.StepFinished("0/look#1", "digest", outcome="failed"), ONE_CALL),
        (e.StepFinished("0/now#1", NO_ARGS), NOTHING),
        (e.ToolCalled("0/send#1", "send", "unsafe", "digest", "key"), ONE_CALL),
        (e.ToolReturned("0/send#1"), NOTHING),
        (e.CallCancelled("0/look#1", "digest"), NOTHING),
        (e.CallCancelled("0/look#1", "digest", made=True), ONE_CALL),
        (e.LlmRequested("0/llm#1", "m"), NOTHING),
        (e.LlmResponded("0/llm#1", usage={"input": 5, "output": 2, "cache_read": 3}), Spent(tokens=7)),
        (e.LlmResponded("0/llm#1", usage={"input": 5, "usd_micros": 9}), Spent(tokens=5, usd_micros=9)),
        (e.LlmResponded("0/llm#1", usage=None, error={"status": 400}), NOTHING),
        (e.ChildStarted("0/spawn#1", "job_2"), NOTHING),
    ],
)
def test_what_a_fact_costs(event: e.Event, price: Spent) -> None:
    """Calls count when they are made and recorded, answers by what they used up, everything else nothing."""
    assert cost(event) == price


@given(
    st.dictionaries(st.sampled_from(["input", "output", "usd_micros", "other"]), st.integers() | st.text())
)
def test_no_provider_can_break_an_account(usage: dict[str, Any]) -> None:
    """Let it say anything: what is charged is never negative, and never enough to overflow."""
    price = cost(e.LlmResponded("0/llm#1", usage=usage))
    assert all(0 <= getattr(price, limit) <= CHARGE_MAX for limit in LIMITS)


@given(budgets)
def test_a_budget_is_told_and_read(budget: Budget) -> None:
    assert read(to_json(budget)) == budget
    assert None not in to_json(budget).values()


@given(budgets, budgets, budgets)
def test_in_whichever_order_limits_are_raised(budget: Budget, one: Budget, other: Budget) -> None:
    """Raise twice, both ways round, and once more: the same budget, no limit smaller, none where there was none."""
    both = raise_limits(raise_limits(budget, one), other)
    assert both == raise_limits(raise_limits(budget, other), one) == raise_limits(both, one)
    for limit in LIMITS:
        before, after = getattr(budget, limit), getattr(both, limit)
        assert (before is None) == (after is None)
        assert before is None or after >= before


@given(amounts)
def test_what_is_written_can_be_read_again(amount: int) -> None:
    """Type what a screen suggests."""
    assert Budget(usd=format_amount("usd_micros", amount)).usd_micros == amount
    assert Budget(wall=format_amount("wall_us", amount)).wall_us == amount
    assert format_amount("tokens", amount) == str(amount)


def test_every_limit_has_its_words() -> None:
    assert set(WORDS) == set(OPTIONS) == set(LIMITS)
    assert [show(limit, 61_500_000) for limit in LIMITS] == [
        "$61.500000",
        "61,500,000",
        "61,500,000",
        "1 m 1 s",
        "61,500,000",
        "61,500,000",
    ]
