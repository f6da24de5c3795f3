"""Forks, on every store: the past is shared and not done again, the rest is the fork's own.

Every shop ends with `verify`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from holdfast.engine.durable_call import READS, CallPolicy, DurableCall
from holdfast.engine.execution import Execution
from holdfast.engine.fork import SAME, fork
from holdfast.engine.replay_check import replay
from holdfast.engine.retention import prune
from holdfast.engine.suspension import sleep
from holdfast.errors import InvalidMove, InvalidName, InvalidPayload, KeyReused, NotFound
from holdfast.model.append import Extras, Move
from holdfast.model.events import JobCreated, JobParked, JobReleased
from holdfast.model.hash_chain import unseal
from holdfast.model.ids import SequentialIds
from holdfast.model.jobs import JobDraft, JobFilter
from holdfast.model.ledger import CallRow, idempotency_key
from holdfast.model.mailbox import MailDraft
from holdfast.model.retention import RetentionPolicy
from holdfast.model.side_effects import CallStatus, Effect
from holdfast.model.states import MailKind, Status
from holdfast.model.time import DAY, HOUR, SECOND
from holdfast.store.ports.journal import Ruling
from holdfast.testing.conformance.harness import Backend
from tests.engine.shop import Shop, opened
from tests.support.fixtures.stores import STORES

pytestmark = pytest.mark.parametrize("backend", STORES, indirect=True)

KEYED = CallPolicy(effect=Effect.IDEMPOTENT)
IDS = SequentialIds(7000)


class Office:
    """Sends mail, and remembers under which keys."""

    def __init__(self) -> None:
        self.sent: list[tuple[str, str]] = []

    async def send(self, drive: Execution, what: str, terms: CallPolicy = KEYED) -> Any:
        async def run(key: str) -> str:
            self.sent.append((what, key))
            return f"{what} sent"

        return await drive.call(DurableCall("send", [what], run, terms))


async def forked(shop: Shop, job_id: str, at: str | int, **changes: Any) -> str:
    submitted = await fork(shop.store, job_id, at=at, ids=IDS, **changes)
    assert submitted.created
    return submitted.job_id


async def end(shop: Shop) -> str:
    return await (await shop.claim()).go()


async def test_the_past_is_not_done_again(backend: Backend) -> None:
    """Goal: nothing is called before the point, and everything after it. Method: a job of reads, an effect and a sleep,
    forked at each of its steps; what is done for real is counted."""
    async with opened(backend) as shop:
        office = Office()

        async def errand(drive: Execution, given: Any) -> Any:
            first = await shop.look(drive, "first")
            sent = await office.send(drive, "hello")
            await sleep(drive, HOUR)
            return [given, first, sent, await shop.look(drive, "last")]

        original = await shop.submit(errand, "in")
        assert await end(shop) == "waiting"
        backend.clock.advance(HOUR)
        assert await end(shop) == "completed"
        before = await shop.store.journal.read(original)
        for at, done, mails, ends in (
            ("0/look#2", {"last": 1}, 0, ["completed"]),
            ("0/sleep#1", {"last": 1}, 0, ["waiting", "completed"]),
            ("0/send#1", {"last": 1}, 1, ["waiting", "completed"]),
            ("0/look#1", {"first": 1, "last": 1}, 1, ["waiting", "completed"]),
        ):
            shop.done.clear()
            office.sent.clear()
            job_id = await forked(shop, original, at)
            for expected in ends:
                assert await end(shop) == expected, at
                backend.clock.advance(2 * HOUR)
            assert (dict(shop.done), len(office.sent)) == (done, mails), at
            job = await shop.job(job_id)
            assert (job.status, job.output) == (Status.COMPLETED, ["in", "FIRST", "hello sent", "LAST"]), at
            assert (await replay(shop.store, job_id, errand, clock=backend.clock)).same
        assert await shop.store.journal.read(original) == before


async def test_a_fork_says_where_it_comes_from_and_has_keys_of_its_own(backend: Backend) -> None:
    async with opened(backend) as shop:
        office = Office()

        async def errand(drive: Execution, _: Any) -> Any:
            await office.send(drive, "one")
            return await office.send(drive, "two")

        original = await shop.submit(errand)
        assert await end(shop) == "completed"
        job_id = await forked(shop, original, "0/send#2")
        assert await end(shop) == "completed"
        (created, *_) = await shop.events(job_id)
        assert isinstance(created, JobCreated)
        assert (created.forked_from, created.forked_at_seq) == (original, 5)
        rows = await shop.store.ledger.list(job_id)
        keys = [idempotency_key("default", job_id, step, 0) for step in ("0/send#1", "0/send#2")]
        assert [(row.status, row.idempotency_key) for row in rows] == [
            (CallStatus.SUCCEEDED, key) for key in keys
        ]
        firsts = [row.idempotency_key for row in await shop.store.ledger.list(original)]
        assert [key for _, key in office.sent] == [*firsts, keys[1]], (
            "the receiver knows no key of what was shared"
        )
        again = await forked(shop, job_id, "0/send#2")
        assert await end(shop) == "completed"
        assert (await shop.job(again)).output == "two sent"


async def test_parallel_branches_share_what_was_there(backend: Backend) -> None:
    """Two branches, one far ahead when the point comes: each gets what it had, and goes on from there."""
    async with opened(backend) as shop:
        waiting = asyncio.get_running_loop().create_future()

        async def both(drive: Execution, _: Any) -> Any:
            async def branch(name: str, steps: int, answer: Callable[[], Any] | None = None) -> list[Any]:
                return [await shop.look(drive, f"{name}{n}", answer) for n in range(steps)]

            slow = branch("slow", 1, lambda: waiting if not waiting.done() else "again")
            return await asyncio.gather(branch("quick", 3), slow)

        original = await shop.submit(both)
        going = asyncio.create_task((await shop.claim(desk=shop.desk(strict=True))).go())
        await shop.until("slow0")
        await shop.until("quick2")
        waiting.set_result("late")
        assert await going == "completed"
        shop.done.clear()
        keys = [getattr(event, "step_key", "") for event in await shop.events(original)]
        await forked(shop, original, next(key for key in keys if key.endswith("/look#3")))
        assert await end(shop) == "completed"
        assert shop.done["quick2"] == 1
        assert shop.done["quick0"] == shop.done["quick1"] == 0


async def test_a_failed_attempt_is_part_of_the_past(backend: Backend) -> None:
    """Goal: what a failed attempt did on its way out neither happens again nor holds up the fork. Method: the first
    attempt fails and apologises; the second succeeds; the fork starts after that, and sends another mail."""
    async with opened(backend) as shop:
        office = Office()
        tries = iter([ZeroDivisionError("once"), None])

        def flaky() -> str:
            if (error := next(tries)) is not None:
                raise error
            return "fine"

        async def errand(drive: Execution, _: Any) -> Any:
            try:
                found = await shop.look(drive, "flaky", flaky)
            except ZeroDivisionError:
                with drive.scope("failure"):
                    await office.send(drive, "sorry")
                raise
            return [found, await office.send(drive, "report")]

        original = await shop.submit(errand)
        assert await end(shop) == "pending"
        backend.clock.advance(HOUR)
        assert await end(shop) == "completed"
        job_id = await forked(shop, original, "0/send#1")
        assert (await shop.store.jobs.head(job_id)).attempts == 0
        assert await end(shop) == "completed"
        assert (await shop.job(job_id)).output == ["fine", "report sent"]
        assert [what for what, _ in office.sent] == ["sorry", "report", "report"]
        assert shop.done["flaky"] == 2


async def test_a_changed_input_follows_the_rules_of_drift(backend: Backend) -> None:
    """A read with other arguments is made again; an effect with other arguments parks the fork before it fires."""
    async with opened(backend) as shop:
        office = Office()

        async def errand(drive: Execution, given: Any) -> Any:
            async def look(_key: str) -> Any:
                shop.done["look"] += 1
                return "always the same"

            found = await drive.call(DurableCall("look", [given["read"]], look, READS))
            await office.send(drive, given["mail"])
            return [found, await shop.look(drive, "last")]

        original = await shop.submit(errand, {"read": 1, "mail": "m"})
        assert await end(shop) == "completed"
        await forked(shop, original, "0/look#2", new_input={"read": 2, "mail": "m"})
        assert await end(shop) == "completed"
        assert shop.done == {"look": 2, "last": 2}
        parked = await forked(shop, original, "0/look#2", new_input={"read": 1, "mail": "other"})
        assert await end(shop) == "waiting"
        assert isinstance((await shop.events(parked))[-1], JobParked)
        assert [what for what, _ in office.sent] == ["m"]


async def test_an_effect_under_way_is_refused(backend: Backend) -> None:
    """Goal: no effect belongs to two jobs. Method: a job with an uncertain call; no point after its intent will do,
    until a person has spoken."""
    async with opened(backend) as shop:

        async def unlucky(drive: Execution, _: Any) -> Any:
            async def lost(_key: str) -> Any:
                raise ConnectionResetError("no answer")

            await shop.look(drive, "first")
            return await drive.call(DurableCall("send", [], lost))

        original = await shop.submit(unlucky)
        assert await end(shop) == "waiting"
        for at, how in ((5, "was under way"), (6, "has an unknown outcome")):
            with pytest.raises(InvalidMove, match=f"0/send#1 {how}") as refused:
                await fork(shop.store, original, at=at, ids=IDS)
            assert "Fork before event 4; or settle the call first." in refused.value.hint
        assert (await shop.store.jobs.counts()) == {Status.WAITING: 1}, "nothing is left of what was refused"
        body = {"step_key": "0/send#1", "decision": "happened", "why": "looked", "result": "it was"}
        word = MailDraft(job_id=original, kind=MailKind.RECONCILE, operation_id="o", sender="ann", body=body)
        await shop.store.post.send(word)
        assert await end(shop) == "completed"
        with pytest.raises(InvalidMove, match="has an unknown outcome") as refused:
            await fork(shop.store, original, at=6, ids=IDS)
        assert "or after event 8, where it was settled" in refused.value.hint
        taken = await forked(shop, original, 9)
        assert await end(shop) == "completed"
        assert (await shop.job(taken)).output == "it was"
        assert shop.done == {"first": 1}


async def test_a_call_sent_again_is_one_call_of_the_fork(backend: Backend) -> None:
    """A person said that a mail had not been sent, and it was sent again: the fork has the second, as its first."""
    async with opened(backend) as shop:
        answers = iter([ConnectionResetError("no answer"), None])

        async def unlucky(drive: Execution, _: Any) -> Any:
            async def lost(_key: str) -> Any:
                if (error := next(answers)) is not None:
                    raise error
                return "sent"

            return [await drive.call(DurableCall("send", [], lost)), await shop.look(drive, "last")]

        original = await shop.submit(unlucky)
        assert await end(shop) == "waiting"
        body = {"step_key": "0/send#1", "decision": "not_happened", "why": "looked"}
        word = MailDraft(job_id=original, kind=MailKind.RECONCILE, operation_id="o", sender="ann", body=body)
        await shop.store.post.send(word)
        assert await end(shop) == "completed"
        job_id = await forked(shop, original, "0/look#1")
        assert await end(shop) == "completed"
        assert (await shop.job(job_id)).output == ["sent", "LAST"]
        assert [row.generation for row in await shop.store.ledger.list(job_id)] == [0]


async def test_a_call_that_was_given_up_stays_given_up(backend: Backend) -> None:
    async with opened(backend) as shop:

        def take_long() -> asyncio.Future[Any]:
            shop.clock.advance(1 * SECOND)
            return asyncio.get_running_loop().create_future()

        async def impatient(drive: Execution, _: Any) -> Any:
            try:
                await asyncio.wait_for(shop.look(drive, "slow", take_long), 0.01)
            except TimeoutError:
                return [await shop.look(drive, "instead"), await shop.look(drive, "last")]

        original = await shop.submit(impatient)
        assert await end(shop) == "completed"
        await forked(shop, original, "0/look#2")
        assert await end(shop) == "completed"
        assert shop.done == {"slow": 1, "instead": 1, "last": 2}


async def test_asked_for_twice_it_is_one_fork(backend: Backend) -> None:
    async with opened(backend) as shop:

        async def two(drive: Execution, _: Any) -> Any:
            return [await shop.look(drive, "a"), await shop.look(drive, "b")]

        original = await shop.submit(two)
        assert await end(shop) == "completed"
        first = await fork(shop.store, original, at="0/look#2", ids=IDS, request_key="r")
        again = await fork(shop.store, original, at="0/look#2", ids=IDS, request_key="r")
        assert (first.created, again.created, again.job_id) == (True, False, first.job_id)
        with pytest.raises(KeyReused):
            await fork(shop.store, original, at="0/look#1", ids=IDS, request_key="r")
        with pytest.raises(KeyReused):
            await shop.store.jobs.submit(JobDraft(kind="two", request_key="r"))
        assert len(await shop.claim_all()) == 1


async def test_half_a_fork_is_none(backend: Backend) -> None:
    """Goal: a fork is there whole or not at all. Method: a past whose last row the store refuses; the job and the holds
    before it are gone with it."""
    async with opened(backend) as shop:
        foreign = CallRow(
            tool_call_id="c",
            job_id="somebody-else",
            step_key="s",
            tool_name="t",
            raw_tool_name="t",
            side_effect_class=Effect.UNSAFE,
            status=CallStatus.PREPARED,
            idempotency_key="k",
            args_digest="d",
        )
        back = Move(status=Status.PENDING)
        rulings = [Ruling((JobReleased(),), back), Ruling((JobReleased(),), back, Extras(calls=(foreign,)))]
        with pytest.raises(InvalidMove):
            await shop.store.journal.begin(JobDraft(kind="k", job_id="half"), rulings)
        with pytest.raises(NotFound):
            await shop.store.jobs.get("half")
        assert await shop.store.journal.read("half") == []
        assert await shop.claim_all() == []


async def test_what_cannot_be_forked_says_why(backend: Backend) -> None:
    async with opened(backend) as shop:

        async def one(drive: Execution, _: Any) -> Any:
            return await shop.look(drive, "a")

        job_id = await shop.submit(one)
        assert await end(shop) == "completed"
        for at in ("0/look#9", 0, 1, 99):
            with pytest.raises(NotFound):
                await fork(shop.store, job_id, at=at, ids=IDS)
        with pytest.raises(NotFound):
            await fork(shop.store, "nobody", at=2, ids=IDS)
        await shop.store.jobs.submit(JobDraft(kind="one", job_id="turn", session_id="s"))
        with pytest.raises(InvalidMove, match="turn of session s"):
            await fork(shop.store, "turn", at=2, ids=IDS)
        backend.clock.advance(2 * DAY)
        await prune(shop.store, RetentionPolicy(older_than_us=DAY))
        with pytest.raises(InvalidPayload, match="was erased"):
            await fork(shop.store, job_id, at=2, ids=IDS)


async def test_a_running_job_can_be_forked(backend: Backend) -> None:
    """The original goes on as if nothing had happened; the fork goes its own way, to another queue."""
    async with opened(backend) as shop:
        hanging = asyncio.get_running_loop().create_future()

        async def two(drive: Execution, given: Any) -> Any:
            first = await shop.look(drive, "first")
            return [
                given,
                first,
                await shop.look(drive, "second", lambda: hanging if not hanging.done() else "now"),
            ]

        original = await shop.submit(two, "in")
        going = asyncio.create_task((await shop.claim(desk=shop.desk(strict=True), ttl_us=HOUR)).go())
        await shop.until("second")
        job_id = await forked(shop, original, 4, new_input=SAME, priority=9)
        head = await shop.store.jobs.head(job_id)
        assert (head.priority, head.status) == (9, Status.PENDING)
        hanging.set_result("late")
        assert await going == "completed"
        backend.clock.advance(SECOND)
        assert await end(shop) == "completed"
        assert (await shop.job(original)).output == ["in", "FIRST", "late"]
        assert (await shop.job(job_id)).output == ["in", "FIRST", "now"]
        assert shop.done == {"first": 1, "second": 2}


# ── with another past ─────────────────────────────────────────────────────────────────────────────


async def test_a_fork_begins_with_another_result_of_a_read(backend: Backend) -> None:
    """Goal: what the code does after it, it does with the result that a person wrote; the journal says whose it is, and
    the original is as it was. Method: a read whose result is what is sent."""
    async with opened(backend) as shop:
        office = Office()

        async def errand(drive: Execution, given: Any) -> Any:
            return await office.send(drive, str(await shop.look(drive, "first")))

        original = await shop.submit(errand, "in")
        assert await end(shop) == "completed"
        said = office.sent[0][0]
        told: dict[str, Any] = {"edits": {"0/look#1": "another"}, "by": "ada", "why": "what if"}
        named = await forked(shop, original, "0/send#1", fork_id="the fork", **told)
        assert await end(shop) == "completed"
        assert [what for what, _ in office.sent] == [said, "another"]
        assert office.sent[0][1] != office.sent[1][1], "under a key of its own"
        created = unseal((await shop.store.journal.read(named))[0])
        assert isinstance(created, JobCreated)
        assert (created.edited["by"], created.edited["why"]) == ("ada", "what if")
        assert list(created.edited["steps"]) == ["0/look#1"]
        again = await fork(shop.store, original, at="0/send#1", ids=IDS, fork_id="the fork", **told)
        assert (again.job_id, again.created) == (named, False)
        with pytest.raises(KeyReused):
            await fork(
                shop.store,
                original,
                at="0/send#1",
                ids=IDS,
                fork_id="the fork",
                **(told | {"edits": {"0/look#1": "x"}}),
            )
        assert (await replay(shop.store, named, errand, clock=backend.clock)).same


async def test_what_the_outside_said_is_not_changed(backend: Backend) -> None:
    """Nor what is not taken over; and somebody has to stand for a change by name. Nothing is written."""
    async with opened(backend) as shop:
        office = Office()

        async def errand(drive: Execution, given: Any) -> Any:
            await office.send(drive, "hello")
            return await shop.look(drive, "last")

        original = await shop.submit(errand, "in")
        assert await end(shop) == "completed"
        for edits, by, error in (
            ({"0/send#1": "x"}, "ada", InvalidMove),
            ({"0/nothing#1": "x"}, "ada", NotFound),
            ({"0/look#1": "x"}, "", InvalidName),
        ):
            with pytest.raises(error):
                await fork(shop.store, original, at=6, ids=IDS, edits=edits, by=by)
        with pytest.raises(NotFound):
            await fork(shop.store, original, at="0/look#1", ids=IDS, edits={"0/look#1": "x"}, by="ada")
        assert len((await shop.store.jobs.list(JobFilter())).items) == 1
