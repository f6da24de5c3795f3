"""The statements that run all the time find their rows by an index, however many rows there are."""

from __future__ import annotations

import pytest

from tests.store.query_plans.calls import HOT, HOT_ON_POSTGRES, POINTS, Call
from tests.store.query_plans.conftest import Plans
from tests.store.query_plans.explain import Plan

pytestmark = pytest.mark.xdist_group("plans")  # the crowd is brought together once


@pytest.mark.parametrize("name", HOT)
@pytest.mark.parametrize("database", ["sqlite"])
@pytest.mark.parametrize("known", ["plain", "analysed"])
def test_sqlite_finds_its_rows(sqlite_plans: Plans, known: str, database: str, name: str) -> None:
    _check(sqlite_plans[known][name], HOT[name])


@pytest.mark.parametrize("name", HOT_ON_POSTGRES)
@pytest.mark.parametrize("database", ["postgres"])
@pytest.mark.parametrize("when", ["settled", "general"])
def test_postgres_finds_its_rows(postgres_plans: Plans, when: str, database: str, name: str) -> None:
    _check(postgres_plans[when][name], HOT_ON_POSTGRES[name])


@pytest.mark.parametrize("name", POINTS)
@pytest.mark.parametrize("database", ["postgres"])
def test_postgres_finds_single_rows_without_statistics(
    postgres_plans: Plans, database: str, name: str
) -> None:
    """The first minute of a database, before anybody has counted what is in it."""
    _check(postgres_plans["young"][name], HOT_ON_POSTGRES[name])


def _check(plan: Plan, call: Call) -> None:
    found = ", ".join(sorted(plan.finds - call.may))
    assert plan.finds - call.may == call.finds, f"finds its rows by {found}\n{plan.raw}"
    assert plan.sorts <= call.sorts, (
        f"sorts in {', '.join(sorted(plan.sorts - call.sorts)) or 'the end'}\n{plan.raw}"
    )
    assert not plan.repeats, f"reads all of {', '.join(plan.repeats)} once more for every row\n{plan.raw}"
