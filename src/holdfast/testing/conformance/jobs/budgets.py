"""Budgets: one account for a whole tree, opened with its job, charged and raised by appends."""

from __future__ import annotations

from holdfast.errors import Fenced, KeyReused
from holdfast.model.append import Extras
from holdfast.model.budget import Budget, BudgetAccount, Charge, LimitRaise
from holdfast.model.jobs import JobDraft
from holdfast.model.retention import PruneMode, RetentionPolicy
from holdfast.model.time import DAY
from holdfast.testing.conformance.driver import Driver, step
from holdfast.testing.conformance.harness import Bench

LIMITS = Budget(usd=2, tokens=1000, tool_calls=40)


async def an_account_is_opened_with_its_job(bench: Bench) -> None:
    """For a single submit, for several at once, and for a child in an append."""
    plain, alone = await bench.submit(), await bench.submit(budget=LIMITS)
    many = [JobDraft(kind="work", budget=Budget(wall="1h"), depth=3), JobDraft(kind="work")]
    (first, second) = [submitted.job_id for submitted in await bench.store.jobs.submit_many(many)]
    parent = await bench.drive_new(budget=LIMITS)
    child = JobDraft(kind="child", job_id="job_child", parent_job_id=parent.job_id, budget=Budget(depth=1))
    await parent.write(step("one"), extras=Extras(children=(child,)))
    found = await bench.store.budgets.find([plain, alone, first, second, "job_child", "job_nobody"])
    limits = {account.budget_id: (account.limits, account.depth) for account in found}
    assert limits == {
        alone: (LIMITS, 0),
        first: (Budget(wall="1h"), 3),
        "job_child": (Budget(depth=1), 0),
    }
    record = await bench.store.jobs.get(alone)
    assert await _find_account(bench, alone) == BudgetAccount(
        budget_id=alone, namespace="default", depth=0, created_at=record.created_at, limits=LIMITS
    )
    assert await bench.store.budgets.find([]) == []


async def a_request_that_is_repeated_keeps_its_account(bench: Bench) -> None:
    driver = await bench.drive_new(job_id="job_1", input=1, budget=LIMITS)
    await driver.write(step("one"), extras=_make_charge(driver, tokens=7))
    async with bench.expect_unchanged():
        queue = (await bench.store.jobs.get("job_1")).queue
        draft = JobDraft(kind="work", queue=queue, job_id="job_1", input=1, budget=Budget(usd=9))
        assert not (await bench.store.jobs.submit(draft)).created
    async with bench.refuses(KeyReused):
        await bench.store.jobs.submit(JobDraft(kind="work", job_id="job_1", input=2, budget=Budget(usd=9)))


async def a_charge_is_written_with_the_event_once(bench: Bench) -> None:
    driver = await bench.drive_new(budget=LIMITS)
    append = await driver.write(
        step("one"), extras=_make_charge(driver, usd_micros=250_000, tokens=7, tool_calls=1)
    )
    async with bench.expect_unchanged():
        await bench.store.journal.append(append)
        await bench.store.journal.append_many([append])
    await driver.write(step("two"), extras=_make_charge(driver, tokens=3))
    account = await _find_account(bench, driver.job_id)
    assert (account.usd_micros, account.tokens, account.tool_calls) == (250_000, 10, 1)


async def a_refused_append_charges_nothing(bench: Bench) -> None:
    driver = await bench.drive_new(budget=LIMITS)
    append = driver.build(step("one"), extras=_make_charge(driver, tokens=7))
    await driver.release()
    async with bench.refuses(Fenced):
        await bench.store.journal.append(append)


async def jobs_of_a_tree_share_an_account(bench: Bench) -> None:
    """Several charges in one append, in any order, to accounts that other appends of the batch charge as well."""
    root = await bench.drive_new(budget=LIMITS)
    limb = await bench.drive_new(budget=LIMITS, budgets=(root.job_id,), depth=1)
    leaf = await bench.drive_new(budgets=(root.job_id, limb.job_id), depth=2)
    both = Extras(
        spend=(
            Charge(limb.job_id, tool_calls=1),
            Charge(root.job_id, tool_calls=1),
            Charge(limb.job_id, tokens=5),
            Charge(root.job_id, tokens=5),
        )
    )
    other = Extras(spend=(Charge(root.job_id, tokens=2), Charge(limb.job_id, tokens=2)))
    appends = [
        root.build(step("one"), extras=_make_charge(root, tool_calls=1)),
        limb.build(step("one"), extras=other),
        leaf.build(step("one"), extras=both),
    ]
    assert await bench.store.journal.append_many(appends) == [append.head for append in appends]
    spent = {
        account.budget_id: (account.tokens, account.tool_calls)
        for account in await bench.store.budgets.find([root.job_id, limb.job_id, leaf.job_id])
    }
    assert spent == {root.job_id: (7, 2), limb.job_id: (7, 1)}


async def limits_are_raised_with_the_event_and_never_lowered(bench: Bench) -> None:
    driver = await bench.drive_new(budget=LIMITS)
    await driver.write(step("one"), extras=_make_charge(driver, tokens=7))
    raises = (LimitRaise(driver.job_id, Budget(usd=1, tokens=5000)), LimitRaise("job_nobody", Budget(usd=1)))
    append = await driver.write(step("two"), extras=Extras(raises=raises))
    account = await _find_account(bench, driver.job_id)
    assert account.limits == Budget(usd=2, tokens=5000, tool_calls=40), "the larger one stays"
    assert account.tokens == 7
    async with bench.expect_unchanged():
        await bench.store.journal.append(append)
    last = LimitRaise(driver.job_id, Budget(tool_calls=41, wall="1h"))
    await driver.write(step("three"), extras=Extras(raises=(last, LimitRaise(driver.job_id, Budget(usd=3)))))
    account = await _find_account(bench, driver.job_id)
    assert account.limits == Budget(usd=3, tokens=5000, tool_calls=41), "what had no limit gets none"


async def an_account_goes_with_its_job(bench: Bench) -> None:
    driver, other = await bench.drive_new(budget=LIMITS), await bench.drive_new(budget=LIMITS)
    await driver.write(step("one"), extras=_make_charge(driver, tokens=7))
    await driver.complete()
    bench.clock.advance(30 * DAY)
    for how, left in ((PruneMode.ERASE, 2), (PruneMode.REMOVE, 1)):
        policy = RetentionPolicy(older_than_us=7 * DAY, how=how)
        (pruned,) = await bench.store.retention.prune([driver.job_id], policy)
        assert pruned.kept is None
        assert len(await bench.store.budgets.find([driver.job_id, other.job_id])) == left
    gone = Extras(spend=(Charge(driver.job_id, tokens=1),))
    await bench.store.journal.append((await bench.drive_new()).build(step("nobody counts it"), extras=gone))


async def accounts_are_kept(bench: Bench) -> None:
    driver = await bench.drive_new(budget=LIMITS)
    await driver.write(step("one"), extras=_make_charge(driver, tokens=7))
    before = await _find_account(bench, driver.job_id)
    await bench.reopen()
    assert await _find_account(bench, driver.job_id) == before


def _make_charge(driver: Driver, **amounts: int) -> Extras:
    return Extras(spend=(Charge(driver.job_id, **amounts),))


async def _find_account(bench: Bench, budget_id: str) -> BudgetAccount:
    (account,) = await bench.store.budgets.find([budget_id])
    return account
