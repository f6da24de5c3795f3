"""Raising a budget: the one that stopped the job, once per operation, for everybody who waits for it."""

from __future__ import annotations

from typing import Any

import pytest

from holdfast.api.job_records import BudgetView
from holdfast.errors import HoldfastError, InvalidMove, InvalidPayload, KeyReused, NotFound
from holdfast.model.budget import Budget
from holdfast.model.jobs import JobFilter
from holdfast.model.states import Status, WaitReason
from holdfast.testing.conformance.harness import Backend
from tests.api.client.job_states import CLIENTS, Lives, lives

pytestmark = pytest.mark.parametrize("backend", CLIENTS, indirect=True)


async def waiting(one: Lives) -> list[str]:
    page = await one.store.jobs.list(JobFilter(wait_reason=WaitReason.BUDGET))
    return sorted(record.job_id for record in page.items)


async def test_a_job_says_what_stopped_it_and_what_to_type(backend: Backend) -> None:
    async with lives(backend) as one:
        job_id = await one.stopped()
        view = await one.client.get(job_id)
        (need,) = view.needs
        assert (need.reason, need.person) == (WaitReason.BUDGET, True)
        assert need.what == "Budget used up: 2 of 2 tool calls"
        assert need.commands == (
            f"holdfast raise {job_id} --tool-calls 4 --why '…'",
            f"holdfast cancel {job_id}",
        )
        assert [need.job_id for need in await one.client.waiting_for_person()] == [job_id]
        assert view.budgets == (
            BudgetView(
                budget_id=job_id,
                since=view.created_at,
                limits={"tool_calls": 2, "usd_micros": 3_000_000},
                spent={"usd_micros": 0, "tokens": 0, "tool_calls": 2},
            ),
        )


async def test_a_raised_budget_lets_the_job_go_on(backend: Backend) -> None:
    async with lives(backend) as one:
        job_id = await one.stopped()
        said: Any = {"why": "worth it", "by": "ada", "operation_id": "op-1"}
        accepted = await one.client.raise_budget(job_id, Budget(tool_calls=4, usd=5), **said)
        assert (accepted.at_once, accepted.repeated) == (False, False)
        assert (await one.client.raise_budget(job_id, Budget(tool_calls=4, usd=5), **said)).repeated
        assert (await one.go_on(rounds=1)) == ["completed"]
        assert (await one.client.raise_budget(job_id, Budget(tool_calls=4, usd=5), **said)).repeated
        with pytest.raises(KeyReused):
            await one.client.raise_budget(job_id, Budget(tool_calls=5), **said)
        texts = [seam.text for seam in (await one.client.trace(job_id)).seams]
        assert "budget reached: 2 of 2 tool calls" in texts
        assert "budget raised by ada: 4 tool calls, $5.000000 spent: worth it" in texts


async def test_everybody_who_waits_for_it_hears_it(backend: Backend) -> None:
    """One word to one child: its siblings, which the same budget stopped, go on without waiting for their next look. A
    job that another budget stopped hears nothing."""
    async with lives(backend) as one:
        other = await one.stopped()
        job_id = await one.stopped(children=3)
        first, *siblings = [child for child in await waiting(one) if child != other]
        assert len(siblings) == 2
        need = (await one.client.get(first)).needs[0]
        assert need.what == f"Budget of {job_id} used up: 1 of 1 tool calls"
        await one.client.raise_budget(first, Budget(tool_calls=9), by="ada")
        assert [(await one.client.get(child)).status for child in siblings] == [Status.PENDING] * 2
        await one.go_on(rounds=2)
        assert (await one.client.get(job_id)).status is Status.COMPLETED
        assert await waiting(one) == [other]
        assert (await one.store.jobs.head(other)).mail_seq == 0


@pytest.mark.parametrize(
    "limits, budget_id, kind, says",
    [
        (Budget(), None, InvalidPayload, "no limit was given"),
        (Budget(tool_calls=2), None, InvalidPayload, "allows 2 tool calls already"),
        (Budget(usd=1), None, InvalidPayload, "allows $3.000000 spent already"),
        (Budget(tool_calls=9, tokens=5), None, InvalidPayload, "has no limit on tokens"),
        (Budget(tool_calls=9), "job_none", NotFound, "does not apply to job"),
    ],
)
async def test_what_changes_nothing_is_refused(
    backend: Backend, limits: Budget, budget_id: str | None, kind: type[HoldfastError], says: str
) -> None:
    async with lives(backend) as one:
        job_id = await one.stopped()
        with pytest.raises(kind) as caught:
            await one.client.raise_budget(job_id, limits, budget_id=budget_id, by="ada")
        assert says in str(caught.value)
        assert caught.value.hint
        assert (await one.store.jobs.head(job_id)).mail_seq == 0


async def test_jobs_that_have_no_budget_or_are_over_are_refused(backend: Backend) -> None:
    async with lives(backend) as one:
        sleeping = await one.sleeping()
        with pytest.raises(InvalidMove, match="no budget applies"):
            await one.client.raise_budget(sleeping, Budget(usd=1), by="ada")
        job_id = await one.stopped()
        await one.client.cancel(job_id)
        await one.go_on(rounds=1)
        with pytest.raises(InvalidMove, match="it is cancelled"):
            await one.client.raise_budget(job_id, Budget(tool_calls=9), by="ada")
