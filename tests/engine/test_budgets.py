"""Budgets: asked before a call is made, charged once with the fact, shared by a whole tree, raised by a person."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec
import pytest

from holdfast.engine import model_requests
from holdfast.engine.children import spawn
from holdfast.engine.crash_points import Point
from holdfast.engine.deterministic_values import now_us
from holdfast.engine.durable_call import CallPolicy, DurableCall
from holdfast.engine.execution import Execution
from holdfast.engine.fork import fork
from holdfast.engine.group_commit import GroupCommit
from holdfast.engine.job_runner import JobRun
from holdfast.engine.model_requests import ModelAnswer, Request
from holdfast.engine.runner_config import Program
from holdfast.engine.suspension import sleep, wait
from holdfast.errors import Fenced, StoreUnavailable
from holdfast.model.budget import Budget, BudgetAccount
from holdfast.model.events import BudgetRaised, BudgetReached, CallCancelled, JobWaiting
from holdfast.model.ids import SequentialIds
from holdfast.model.jobs import JobDraft, JobFilter
from holdfast.model.side_effects import Effect
from holdfast.model.states import MailKind, Status, WaitReason
from holdfast.model.time import HOUR, MINUTE, SECOND
from holdfast.store.interceptor import Call, InterceptedStore
from holdfast.testing.conformance.harness import Backend
from tests.engine.shop import Shop, opened
from tests.support.fixtures.stores import STORES

pytestmark = pytest.mark.parametrize("backend", STORES, indirect=True)

KEYED = CallPolicy(effect=Effect.IDEMPOTENT)


async def submit(shop: Shop, program: Program, budget: Budget | None, given: Any = None) -> str:
    shop.programs[program.__name__] = program
    draft = JobDraft(kind=program.__name__, input=given, budget=budget)
    return (await shop.store.jobs.submit(draft)).job_id


async def account(shop: Shop, budget_id: str) -> BudgetAccount:
    (found,) = await shop.store.budgets.find([budget_id])
    return found


async def reached(shop: Shop, job_id: str) -> list[tuple[str, int, int]]:
    events = [event for event in await shop.events(job_id) if isinstance(event, BudgetReached)]
    return [(event.limit, event.spent, event.allowed) for event in events]


async def raise_limits(shop: Shop, job_id: str, budget_id: str | None = None, **limits: int) -> None:
    body = {"budget_id": budget_id or job_id, "limits": limits, "why": "worth it"}
    await shop.tell(job_id, MailKind.BUDGET, body)


async def stands(shop: Shop, job_id: str) -> tuple[Status, WaitReason | None, str]:
    head = await shop.store.jobs.head(job_id)
    return head.status, head.wait_reason, head.lease_token


STOPPED = (Status.WAITING, WaitReason.BUDGET, "")


async def send(shop: Shop, drive: Execution, name: str, terms: CallPolicy = KEYED) -> Any:
    async def run(_key: str) -> str:
        shop.done[name] += 1
        return name

    return await drive.call(DurableCall("send", [name], run, terms))


async def answer(shop: Shop, drive: Execution, text: str, **usage: int) -> Any:
    """One request to a model that costs this much."""
    asking = await model_requests.open_request(drive, Request("llm", "m", b"{}", (text.encode(),)))
    if asking.answer is None:
        await asking.afford()
        asking.begin()
        shop.done[text] += 1
        await asking.record_answer(ModelAnswer(text.upper(), usage))
    assert asking.answer is not None
    return asking.answer.response


# ── one job ───────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("is_effect", [False, True])
async def test_the_call_beyond_the_limit_is_not_made(backend: Backend, is_effect: bool) -> None:
    """Let a job call more often than it may: it stops before the call, holds nothing, and goes on where it stopped once
    somebody has raised the limit. Nothing of what was done before is done again or paid again."""
    async with opened(backend) as shop:

        async def busy(drive: Execution, _: Any) -> Any:
            if is_effect:
                return [await send(shop, drive, name) for name in "abcde"]
            return [await shop.look(drive, name) for name in "abcde"]

        job_id = await submit(shop, busy, Budget(tool_calls=3))
        assert await shop.drive_all() == ["waiting"]
        assert await stands(shop, job_id) == STOPPED
        assert shop.done == {"a": 1, "b": 1, "c": 1}
        assert await reached(shop, job_id) == [("tool_calls", 3, 3)]
        assert (await account(shop, job_id)).tool_calls == 3
        await raise_limits(shop, job_id, tool_calls=4)
        assert await shop.drive_all() == ["waiting"]
        assert shop.done == {"a": 1, "b": 1, "c": 1, "d": 1}
        assert await reached(shop, job_id) == [("tool_calls", 3, 3), ("tool_calls", 4, 4)]
        await raise_limits(shop, job_id, tool_calls=5)
        assert await shop.drive_all() == ["completed"]
        assert shop.done == {"a": 1, "b": 1, "c": 1, "d": 1, "e": 1}
        assert (await account(shop, job_id)).tool_calls == 5
        raised = [event for event in await shop.events(job_id) if isinstance(event, BudgetRaised)]
        assert raised[0] == BudgetRaised(job_id, {"tool_calls": 4}, "ada", "worth it", 1)


async def test_a_budget_that_is_used_up_exactly_stops_nobody(backend: Backend) -> None:
    """Noting the time is no call, and waits cost nothing."""
    async with opened(backend) as shop:

        async def exact(drive: Execution, _: Any) -> Any:
            now_us(drive)
            await shop.look(drive, "a")
            now_us(drive)
            return await send(shop, drive, "b")

        job_id = await submit(shop, exact, Budget(tool_calls=2))
        assert await shop.drive_all() == ["completed"]
        assert await reached(shop, job_id) == []
        assert (await account(shop, job_id)).tool_calls == 2


async def test_a_job_without_a_budget_has_no_account(backend: Backend) -> None:
    async with opened(backend) as shop:

        async def free(drive: Execution, _: Any) -> Any:
            return [await shop.look(drive, name) for name in "abc"]

        job_id = await submit(shop, free, None)
        assert await shop.drive_all() == ["completed"]
        assert await shop.store.budgets.find([job_id]) == []


async def test_parallel_calls_of_one_job_are_all_counted(backend: Backend) -> None:
    """Start many reads at once: those under way count, though none of them is recorded yet."""
    async with opened(backend) as shop:

        async def many(drive: Execution, _: Any) -> Any:
            return await asyncio.gather(*(shop.look(drive, f"page {n}") for n in range(20)))

        job_id = await submit(shop, many, Budget(tool_calls=7))
        assert await shop.drive_all() == ["waiting"]
        assert sum(shop.done.values()) == 7
        assert await reached(shop, job_id) == [("tool_calls", 7, 7)], "said once, however many tasks met it"
        await raise_limits(shop, job_id, tool_calls=20)
        assert await shop.drive_all() == ["completed"]
        assert sorted(shop.done.values()) == [1] * 20
        assert (await account(shop, job_id)).tool_calls == 20


async def test_answers_cost_tokens_and_money(backend: Backend) -> None:
    """A model's price is known afterwards: the answer that crosses the limit is the last one."""
    async with opened(backend) as shop:

        async def talk(drive: Execution, _: Any) -> Any:
            return [await answer(shop, drive, f"q{n}", input=30, output=10, usd_micros=400) for n in range(5)]

        job_id = await submit(shop, talk, Budget(tokens=100, usd="0.01"))
        assert await shop.drive_all() == ["waiting"]
        assert shop.done == {"q0": 1, "q1": 1, "q2": 1}
        assert await reached(shop, job_id) == [("tokens", 120, 100)]
        await raise_limits(shop, job_id, tokens=1000)
        assert await shop.drive_all() == ["completed"]
        found = await account(shop, job_id)
        assert (found.tokens, found.usd_micros, found.tool_calls) == (200, 2000, 0)
        other = await submit(shop, talk, Budget(usd="0.0008"))
        assert await shop.drive_all() == ["waiting"]
        assert await reached(shop, other) == [("usd_micros", 800, 800)]


async def test_time_is_counted_from_the_creation(backend: Backend) -> None:
    async with opened(backend) as shop:

        async def slow(drive: Execution, _: Any) -> Any:
            await shop.look(drive, "a")
            await sleep(drive, HOUR)
            return await shop.look(drive, "b")

        job_id = await submit(shop, slow, Budget(wall="30m"))
        assert await shop.drive_all() == ["waiting"]
        backend.clock.advance(HOUR + SECOND)
        assert await shop.drive_all() == ["waiting"]
        assert await stands(shop, job_id) == STOPPED
        (fact,) = await reached(shop, job_id)
        assert fact[0] == "wall_us"
        assert HOUR <= fact[1] <= HOUR + MINUTE
        assert shop.done == {"a": 1}
        await raise_limits(shop, job_id, wall_us=3 * HOUR)
        assert await shop.drive_all() == ["completed"]


async def test_a_call_that_was_given_up_was_made(backend: Backend) -> None:
    """Give up every read after a moment: a loop of timeouts comes to its limit like any other. A call that the budget
    kept from being made costs nothing."""
    async with opened(backend) as shop:

        async def impatient(drive: Execution, _: Any) -> Any:
            for name in "abcde":
                never = asyncio.get_running_loop().create_future()
                looking = asyncio.ensure_future(shop.look(drive, name, lambda never=never: never))  # type: ignore[misc]
                await shop.until(name)
                looking.cancel()
                await asyncio.wait([looking])

        job_id = await submit(shop, impatient, Budget(tool_calls=3))
        assert await shop.drive_all() == ["waiting"]
        assert shop.done == {"a": 1, "b": 1, "c": 1}
        given_up = [event.made for event in await shop.events(job_id) if isinstance(event, CallCancelled)]
        assert given_up == [True] * 3
        assert await stands(shop, job_id) == STOPPED


# ── recovery ──────────────────────────────────────────────────────────────────────────────────────


async def test_a_takeover_pays_for_nothing_again(backend: Backend) -> None:
    """Kill the worker between an answer and the next call, and at each point of that call: what was answered is in the
    account once, and what was cut off and sent again under its key is one call."""
    async with opened(backend) as shop:

        async def talk(drive: Execution, _: Any) -> Any:
            first = await answer(shop, drive, "hello", input=5, output=2, usd_micros=100)
            sent = await send(shop, drive, "mail")
            second = await answer(shop, drive, "and", input=9, output=4, usd_micros=200)
            return [first, sent, second, await shop.look(drive, "end")]

        job_id = await submit(shop, talk, Budget(usd=1, tokens=1000, tool_calls=2))
        runs: list[JobRun] = []

        def killed_at(point: Point, nth: int) -> Any:
            seen: list[Point] = []

            def reached_point(at: Point, _name: str) -> None:
                seen.append(at)
                if at is point and seen.count(point) == nth:
                    runs[-1].lose(Fenced("this process was killed"))

            return reached_point

        for point in (Point.BEFORE_INTENT, Point.AFTER_INTENT, Point.AFTER_SUCCESS):
            desk = msgspec.structs.replace(shop.desk(strict=True), points=killed_at(point, 1))
            runs.append(await shop.claim(desk=desk))
            assert await runs[-1].go() == "lost"
            backend.clock.advance(31 * SECOND)
        assert await (await shop.claim()).go() == "completed"
        assert shop.done["hello"] == shop.done["and"] == 1
        assert shop.done["mail"] == 2, "sent by the killed worker, and again under the same key"
        found = await account(shop, job_id)
        assert (found.usd_micros, found.tokens, found.tool_calls) == (300, 20, 2)


class Lossy:
    """A store whose replies to appends are lost now and then, after the append is durable."""

    def __init__(self) -> None:
        self.appends = 0

    async def around(self, name: str, call: Call, args: tuple[Any, ...], options: dict[str, Any]) -> Any:
        result = await call(*args, **options)
        if name in {"journal.append", "journal.append_many"}:
            self.appends += 1
            if self.appends % 2:
                raise StoreUnavailable("the reply was lost")
        return result


async def test_a_lost_reply_is_not_paid_twice(backend: Backend) -> None:
    async with opened(backend) as shop:
        store, lossy = shop.store, Lossy()

        async def mixed(drive: Execution, _: Any) -> Any:
            await answer(shop, drive, "hello", input=5, output=2, usd_micros=100)
            await send(shop, drive, "mail")
            return await shop.look(drive, "end")

        job_id = await submit(shop, mixed, Budget(tool_calls=2, tokens=7))
        shop.store = InterceptedStore(store, lossy.around)
        desk = msgspec.structs.replace(shop.desk(), committer=GroupCommit(shop.store.journal))
        assert await (await shop.claim(desk=desk)).go() == "completed"
        assert lossy.appends >= 6, "every append was sent twice"
        found = await account(shop, job_id)
        assert (found.usd_micros, found.tokens, found.tool_calls) == (100, 7, 2)


async def test_a_store_that_is_away_delays_the_question_only(backend: Backend) -> None:
    async with opened(backend) as shop:
        away = [True, True]

        async def around(name: str, call: Call, args: tuple[Any, ...], options: dict[str, Any]) -> Any:
            if name == "budgets.find" and away:
                away.pop()
                raise StoreUnavailable("not now")
            return await call(*args, **options)

        async def one(drive: Execution, _: Any) -> Any:
            return await shop.look(drive, "a")

        await submit(shop, one, Budget(tool_calls=1))
        shop.store = InterceptedStore(shop.store, around)
        assert await shop.drive_all() == ["completed"]
        assert not away


async def test_a_fork_pays_for_what_it_does_itself(backend: Backend) -> None:
    async with opened(backend) as shop:

        async def report(drive: Execution, _: Any) -> Any:
            await answer(shop, drive, "hello", input=5, output=2)
            await send(shop, drive, "mail")
            return [await shop.look(drive, name) for name in "ab"]

        job_id = await submit(shop, report, Budget(tool_calls=3, tokens=10))
        assert await shop.drive_all() == ["completed"]
        forked = await fork(shop.store, job_id, at="0/look#2", ids=SequentialIds(5))
        assert await shop.drive_all() == ["completed"]
        assert (await account(shop, job_id)).tool_calls == 3
        found = await account(shop, forked.job_id)
        assert (found.tool_calls, found.tokens, found.limits) == (1, 0, Budget(tool_calls=3, tokens=10))


# ── waiting and raising ───────────────────────────────────────────────────────────────────────────


async def test_a_job_that_waits_looks_again_ever_more_rarely(backend: Backend) -> None:
    """Let it wait for a day: its journal does not fill up with looks, and the limit is said once."""
    async with opened(backend) as shop:

        async def busy(drive: Execution, _: Any) -> Any:
            return [await shop.look(drive, name) for name in "ab"]

        job_id = await submit(shop, busy, Budget(tool_calls=1))
        for _ in range(24 * 60):
            await shop.drive_all()
            backend.clock.advance(MINUTE)
        naps = [event for event in await shop.events(job_id) if isinstance(event, JobWaiting)]
        assert 24 <= len(naps) <= 30
        assert await reached(shop, job_id) == [("tool_calls", 1, 1)]
        assert await stands(shop, job_id) == STOPPED


async def test_a_limit_is_raised_while_the_job_runs(backend: Backend) -> None:
    """One task waits for the budget, another is at work: the letter is read, and the first goes on at once."""
    async with opened(backend) as shop:
        hanging = asyncio.get_running_loop().create_future()

        async def both(drive: Execution, _: Any) -> Any:
            slow = asyncio.ensure_future(shop.look(drive, "slow", lambda: hanging))
            await shop.until("slow")
            return [await shop.look(drive, "quick"), await slow]

        job_id = await submit(shop, both, Budget(tool_calls=1))
        run = await shop.claim()
        going = asyncio.create_task(run.go())
        while not await reached(shop, job_id):
            await shop.store.wakeups.wait(frozenset({"queue:none"}), 0.005)
        assert shop.done == {"slow": 1}
        await raise_limits(shop, job_id, tool_calls=2)
        run.poke()
        await shop.until("quick")
        hanging.set_result("at last")
        assert await going == "completed"
        assert (await account(shop, job_id)).tool_calls == 2


@pytest.mark.parametrize(
    "body",
    [
        {"budget_id": "job_of_somebody_else", "limits": {"tool_calls": 9}},
        {"limits": {"tool_calls": 9}},
        {"budget_id": "own", "limits": {"tool_calls": -1}},
        {"budget_id": "own", "limits": {"luck": 9}},
        {"budget_id": "own", "limits": {"tool_calls": "many"}},
        "more",
    ],
)
async def test_a_letter_that_says_nothing_changes_nothing(backend: Backend, body: Any) -> None:
    async with opened(backend) as shop:

        async def busy(drive: Execution, _: Any) -> Any:
            return [await shop.look(drive, name) for name in "ab"]

        job_id = await submit(shop, busy, Budget(tool_calls=1))
        other = await submit(shop, busy, Budget(tool_calls=1))
        await shop.drive_all()
        if isinstance(body, dict) and body.get("budget_id") == "own":
            body = {**body, "budget_id": job_id}
        elif isinstance(body, dict) and "budget_id" in body:
            body = {**body, "budget_id": other}
        await shop.tell(job_id, MailKind.BUDGET, body)
        await shop.drive_all()
        assert await stands(shop, job_id) == STOPPED
        assert [(await account(shop, one)).limits for one in (job_id, other)] == [Budget(tool_calls=1)] * 2


async def test_a_cancel_ends_a_job_that_waits_for_its_budget(backend: Backend) -> None:
    async with opened(backend) as shop:

        async def busy(drive: Execution, _: Any) -> Any:
            return [await send(shop, drive, name) for name in "ab"]

        job_id = await submit(shop, busy, Budget(tool_calls=1))
        assert await shop.drive_all() == ["waiting"]
        await shop.tell(job_id, MailKind.CANCEL, name="enough")
        assert await shop.drive_all() == ["cancelled"]
        assert shop.done == {"a": 1}


async def test_code_may_give_up_a_call_that_waits_for_its_budget(backend: Backend) -> None:
    """The call was not made, so it is not paid for; and a replay gives it up again."""
    async with opened(backend) as shop:

        async def patient(drive: Execution, _: Any) -> Any:
            await shop.look(drive, "a")
            waiting = asyncio.ensure_future(shop.look(drive, "b"))
            await wait(drive, "go on")
            waiting.cancel()
            await asyncio.wait([waiting])
            return await wait(drive, "the end")

        job_id = await submit(shop, patient, Budget(tool_calls=1))
        assert await shop.drive_all() == ["waiting"]
        await shop.tell(job_id, MailKind.SIGNAL, name="go on")
        assert await shop.drive_all() == ["waiting"]
        await shop.tell(job_id, MailKind.SIGNAL, "over", name="the end")
        assert await shop.drive_all() == ["completed"]
        assert shop.done == {"a": 1}
        (given_up,) = [event for event in await shop.events(job_id) if isinstance(event, CallCancelled)]
        assert not given_up.made
        assert (await account(shop, job_id)).tool_calls == 1


# ── trees ─────────────────────────────────────────────────────────────────────────────────────────


def family(shop: Shop, budget: Budget | None = None) -> Program:
    """A parent that starts this many children, each of which looks at as many pages."""

    async def child(drive: Execution, given: Any) -> Any:
        return [await shop.look(drive, f"{given['name']} {n}") for n in range(given["pages"])]

    async def parent(drive: Execution, given: Any) -> Any:
        drafts = [
            JobDraft(kind="child", input={"name": name, "pages": given["pages"]}, budget=budget)
            for name in given["children"]
        ]
        found = [await shop.look(drive, "parent")]
        return found + await asyncio.gather(*(spawn(drive, draft) for draft in drafts))

    shop.programs["child"] = child
    return parent


async def children(shop: Shop) -> list[str]:
    page = await shop.store.jobs.list(JobFilter(kind="child"))
    return sorted(record.job_id for record in page.items)


async def test_children_share_the_budget_of_their_parent(backend: Backend) -> None:
    """The whole tree stops at one limit, exactly, whoever of it makes the call; raised, it goes on to its end."""
    async with opened(backend) as shop:
        given = {"children": ["x", "y"], "pages": 5}
        job_id = await submit(shop, family(shop), Budget(tool_calls=8), given)
        await shop.drive_all()
        first, second = await children(shop)
        assert (await account(shop, job_id)).tool_calls == sum(shop.done.values()) == 8
        stopped = [one for one in (first, second) if await stands(shop, one) == STOPPED]
        (last,) = stopped  # one child was done before the budget was
        assert await reached(shop, last) == [("tool_calls", 8, 8)]
        assert (await stands(shop, job_id))[1] is WaitReason.CHILD
        await raise_limits(shop, last, job_id, tool_calls=11)
        await shop.drive_all()
        assert (await shop.job(job_id)).status is Status.COMPLETED
        assert (await account(shop, job_id)).tool_calls == sum(shop.done.values()) == 11
        assert set(shop.done.values()) == {1}


async def test_siblings_hear_of_a_raise_by_themselves(backend: Backend) -> None:
    async with opened(backend) as shop:
        given = {"children": ["x", "y"], "pages": 3}
        job_id = await submit(shop, family(shop), Budget(tool_calls=1), given)
        await shop.drive_all()
        first, second = await children(shop)
        assert [await stands(shop, one) for one in (first, second)] == [STOPPED] * 2
        await raise_limits(shop, first, job_id, tool_calls=7)
        await shop.drive_all()
        assert await stands(shop, second) == STOPPED
        backend.clock.advance(MINUTE + SECOND)
        await shop.drive_all()
        assert (await shop.job(job_id)).status is Status.COMPLETED
        assert (await account(shop, job_id)).tool_calls == 7


async def test_jobs_that_run_at_once_exceed_by_one_call_each_at_most(backend: Backend) -> None:
    """Nothing is reserved between jobs: hold two children between the question and the call, with room for one. Both
    call, and neither calls again."""
    async with opened(backend) as shop:
        given = {"children": ["x", "y"], "pages": 4}
        job_id = await submit(shop, family(shop), Budget(tool_calls=2), given)
        assert await (await shop.claim()).go() == "waiting"
        runs = await shop.claim_all()
        assert len(runs) == 2
        assert await asyncio.gather(*(run.go() for run in runs)) == ["waiting", "waiting"]
        used = (await account(shop, job_id)).tool_calls
        assert used == sum(shop.done.values())
        assert 2 <= used <= 2 + len(runs) - 1


async def test_every_budget_of_the_chain_counts(backend: Backend) -> None:
    """A child with a budget of its own pays from both, and is stopped by whichever is reached; each is raised alone."""
    async with opened(backend) as shop:
        given = {"children": ["x"], "pages": 4}
        job_id = await submit(shop, family(shop, Budget(tool_calls=2)), Budget(tool_calls=4), given)
        await shop.drive_all()
        (child,) = await children(shop)
        assert await stands(shop, child) == STOPPED
        spent = [(await account(shop, one)).tool_calls for one in (job_id, child)]
        assert spent == [3, 2]
        await raise_limits(shop, child, tool_calls=9)
        await shop.drive_all()
        assert await stands(shop, child) == STOPPED
        facts = [event for event in await shop.events(child) if isinstance(event, BudgetReached)]
        assert [(fact.budget_id, fact.allowed) for fact in facts] == [(child, 2), (job_id, 4)]
        await raise_limits(shop, child, job_id, tool_calls=5)
        await shop.drive_all()
        assert (await shop.job(job_id)).status is Status.COMPLETED
        assert [(await account(shop, one)).tool_calls for one in (job_id, child)] == [5, 4]


async def test_depth_and_fan_out_are_asked_before_a_child_is_started(backend: Backend) -> None:
    async with opened(backend) as shop:

        async def deeper(drive: Execution, levels: Any) -> Any:
            return await spawn(drive, JobDraft(kind="deeper", input=levels - 1)) if levels else "bottom"

        job_id = await submit(shop, deeper, Budget(depth=2), 3)
        await shop.drive_all()
        page = await shop.store.jobs.list(JobFilter(kind="deeper"))
        assert len(page.items) == 3, "the root and two levels"
        (stopped,) = [record.job_id for record in page.items if record.wait_reason is WaitReason.BUDGET]
        assert await reached(shop, stopped) == [("depth", 2, 2)]
        await raise_limits(shop, stopped, job_id, depth=3)
        await shop.drive_all()
        assert (await shop.job(job_id)).output == "bottom"

        given = {"children": ["x", "y", "z"], "pages": 1}
        wide = await submit(shop, family(shop), Budget(fan_out=2), given)
        await shop.drive_all()
        assert len(await children(shop)) == 2
        assert await reached(shop, wide) == [("fan_out", 2, 2)]
        await raise_limits(shop, wide, fan_out=3)
        await shop.drive_all()
        assert (await shop.job(wide)).status is Status.COMPLETED
        assert len(await children(shop)) == 3
