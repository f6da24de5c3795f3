"""The mail scenario: four kinds of receiver, a kill at every point, and the receivers' own logs as witnesses."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec
import pytest

from holdfast.engine.crash_points import Point
from holdfast.engine.durable_call import READS, CallPolicy, DurableCall
from holdfast.engine.execution import Execution
from holdfast.engine.group_commit import GroupCommit
from holdfast.engine.job_runner import JobRun
from holdfast.engine.runner_config import RunnerConfig
from holdfast.engine.suspension import sleep
from holdfast.errors import CallFailed, Fenced
from holdfast.model.jobs import JobDraft
from holdfast.model.mailbox import MailDraft
from holdfast.model.side_effects import CallStatus, Effect
from holdfast.model.states import MailKind, Status, WaitReason
from holdfast.model.time import HOUR, MINUTE, SECOND
from holdfast.testing.conformance.harness import Backend
from tests.engine.shop import Shop, opened
from tests.support.fixtures.stores import STORES
from tests.support.mail_receivers import DraftMail, KeyedMail, PlainMail, ProbedMail

pytestmark = pytest.mark.parametrize("backend", STORES, indirect=True)

KEYED = CallPolicy(effect=Effect.IDEMPOTENT, key_lifetime_us=24 * HOUR)


class Scenario:
    """Write a text, mail it, note the receipt."""

    def __init__(self, kind: str) -> None:
        self.kind = kind
        self.mail = {"keyed": KeyedMail, "draft": DraftMail, "probe": ProbedMail, "plain": PlainMail}[kind]()

    @property
    def terms(self) -> CallPolicy:
        if isinstance(self.mail, ProbedMail):
            return CallPolicy(effect=Effect.VERIFIABLE, probe=self.mail.probe)
        return CallPolicy() if self.kind == "plain" else KEYED

    async def program(self, drive: Execution, text: Any) -> Any:
        async def write(_key: str) -> str:
            return f"Dear {text}"

        async def draft(key: str) -> str:
            assert isinstance(self.mail, DraftMail)
            return await self.mail.draft(key, body)

        async def send(key: str) -> Any:
            return await self.mail.send(key, body)

        body = await drive.call(DurableCall("write", [text], write, READS))
        if self.kind == "draft":
            body = await drive.call(DurableCall("draft_mail", [body], draft, KEYED))
        return await drive.call(DurableCall("send_mail", [body], send, self.terms))


def killing(desk: RunnerConfig, at: Point, tool: str, runs: list[JobRun]) -> RunnerConfig:
    """A process that dies when it reaches this point."""

    def reached(point: Point, name: str) -> None:
        if (point, name) == (at, tool):
            runs[0].lose(Fenced("this process was killed"))

    return msgspec.structs.replace(desk, points=reached)


async def crashed(shop: Shop, scenario: Scenario, at: Point, tool: str = "send_mail") -> str:
    """The job after its first worker died at this point."""
    shop.programs["mail"] = scenario.program
    submitted = await shop.store.jobs.submit(_draft())
    runs: list[JobRun] = []
    runs.append(await shop.claim(worker="one", desk=killing(shop.desk(), at, tool, runs)))
    assert await runs[0].go() == "lost"
    return submitted.job_id


def _draft() -> JobDraft:
    return JobDraft(kind="mail", input="Ada")


async def recovered(shop: Shop) -> list[str]:
    """What other workers make of it, claim by claim, until nothing is left to claim."""
    ends = []
    for _ in range(6):
        shop.clock.advance(2 * MINUTE)
        ends += [await run.go() for run in await shop.claim_all(worker="two")]
    return ends


@pytest.mark.parametrize("at", Point)
@pytest.mark.parametrize("kind", ["keyed", "draft", "probe"])
async def test_one_mail_whatever_was_killed(backend: Backend, kind: str, at: Point) -> None:
    async with opened(backend) as shop:
        scenario = Scenario(kind)
        job_id = await crashed(shop, scenario, at)
        assert (await recovered(shop))[-1] == "completed"
        assert len(scenario.mail.log) == 1, "the receiver's own word"
        assert (await shop.job(job_id)).output == {"receipt": 1}
        rows = await shop.store.ledger.list(job_id)
        assert {row.status for row in rows} == {CallStatus.SUCCEEDED}
        assert len({row.idempotency_key for row in rows}) == len(rows)


@pytest.mark.parametrize("happened", [True, False])
@pytest.mark.parametrize("at", Point)
async def test_a_plain_mail_is_never_sent_again_by_itself(
    backend: Backend, at: Point, happened: bool
) -> None:
    """At most one mail, an `uncertain` call where nobody can know, and exactly one after a person has spoken."""
    async with opened(backend) as shop:
        scenario = Scenario("plain")
        job_id = await crashed(shop, scenario, at)
        sent = len(scenario.mail.log)
        await recovered(shop)
        if at in {Point.BEFORE_INTENT, Point.AFTER_LEDGER}:
            assert len(scenario.mail.log) == 1
            assert (await shop.job(job_id)).status is Status.COMPLETED
            return
        assert len(scenario.mail.log) == sent <= 1
        head = await shop.store.jobs.head(job_id)
        assert (head.status, head.wait_reason) == (Status.WAITING, WaitReason.RECONCILE)
        (row,) = await shop.store.ledger.list(job_id, status=CallStatus.UNCERTAIN)
        decision = "happened" if sent else "not_happened"
        if happened != bool(sent):
            return  # a person who is wrong is believed; that is another test's matter
        body = {"step_key": row.step_key, "decision": decision, "why": "I looked", "result": {"receipt": 1}}
        letter = MailDraft(
            job_id=job_id, kind=MailKind.RECONCILE, operation_id="op-1", sender="ada", body=body
        )
        await shop.store.post.send(letter)
        assert (await recovered(shop))[-1] == "completed"
        assert len(scenario.mail.log) == 1
        assert (await shop.job(job_id)).output == {"receipt": 1}


@pytest.mark.parametrize("kind", ["keyed", "probe"])
async def test_a_frozen_worker_does_not_send_after_its_deadline(backend: Backend, kind: str) -> None:
    """Goal: no second mail from a sleeper. Method: the first worker is frozen right after its intent was committed;
    another takes over and finishes; then the first wakes up, sees the time, and finds that the job is not its own."""
    async with opened(backend) as shop:
        scenario = Scenario(kind)
        shop.programs["mail"] = scenario.program
        await shop.store.jobs.submit(_draft())
        journal = Freezing(shop.store.journal)
        desk = msgspec.structs.replace(shop.desk(), committer=GroupCommit(journal))
        frozen = asyncio.create_task((await shop.claim(worker="one", desk=desk)).go())
        await journal.frozen.wait()
        assert (await recovered(shop))[-1] == "completed"
        journal.thawed.set()
        assert await frozen == "lost"
        assert len(scenario.mail.log) == 1


async def test_a_proven_death_is_waited_for_once(backend: Backend) -> None:
    """Goal: a call whose worker is proven dead is looked up after its longest time and the margin, counted from when
    the death was found. Method: the job sleeps over that wait, and its next run finds that the time has come."""
    async with opened(backend) as shop:
        scenario = Scenario("probe")
        await crashed(shop, scenario, Point.AFTER_SUCCESS)
        shop.clock.advance(1 * SECOND)
        await shop.store.leases.expire("one")
        desk = msgspec.structs.replace(shop.desk(), gone=lambda worker: worker == "one")
        assert await (await shop.claim(worker="two", desk=desk)).go() == "waiting"
        shop.clock.advance(65 * SECOND - 1)
        assert not await shop.claim_all(worker="two", desk=desk), "not a moment earlier"
        shop.clock.advance(1)
        assert await (await shop.claim(worker="two", desk=desk)).go() == "completed"
        assert len(scenario.mail.log) == 1


class Freezing:
    """A journal whose process is stopped after the first commit that holds an intent."""

    is_near = False

    def __init__(self, journal: Any) -> None:
        self._journal = journal
        self.frozen, self.thawed = asyncio.Event(), asyncio.Event()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._journal, name)

    async def append_many(self, appends: Any) -> Any:
        outcomes = await self._journal.append_many(appends)
        if any(event.type == "tool_called" for append in appends for event in append.events):
            self.frozen.set()
            await self.thawed.wait()
        return outcomes


async def test_an_unclear_answer_is_a_cut_off_call(backend: Backend) -> None:
    """An error that does not say `refused` is no proof that nothing happened: an unsafe call is then uncertain."""
    async with opened(backend) as shop:
        mail = PlainMail()

        async def unclear(drive: Execution, _: Any) -> Any:
            async def send(key: str) -> Any:
                await mail.send(key, "hello")
                raise TimeoutError("no answer")

            return await drive.call(DurableCall("send_mail", ["hello"], send))

        job_id = await shop.submit(unclear)
        assert await (await shop.claim()).go() == "waiting"
        assert (await shop.store.jobs.head(job_id)).wait_reason is WaitReason.RECONCILE
        assert len(mail.log) == 1


async def test_a_key_is_sent_again_only_while_it_is_remembered(backend: Backend) -> None:
    async with opened(backend) as shop:
        scenario = Scenario("keyed")
        job_id = await crashed(shop, scenario, Point.AFTER_SUCCESS)
        backend.clock.advance(20 * HOUR)
        assert await (await shop.claim(worker="two", ttl_us=30 * SECOND)).go() == "waiting"
        assert (await shop.store.jobs.head(job_id)).wait_reason is WaitReason.RECONCILE
        assert len(scenario.mail.log) == 1


async def test_nobody_is_asked_before_the_old_worker_must_be_silent(backend: Backend) -> None:
    """Goal: a probe says "not there" only when nothing can still be on its way. Method: claim as soon as the lease is
    over; the job goes back to sleep until start-by deadline, longest call and margin have passed."""
    async with opened(backend) as shop:
        scenario = Scenario("probe")
        start = backend.clock.wall_us()
        job_id = await crashed(shop, scenario, Point.AFTER_INTENT)
        backend.clock.advance(31 * SECOND)
        assert await (await shop.claim(worker="two")).go() == "waiting"
        assert (await shop.store.jobs.head(job_id)).wake_at == start + 20 * SECOND + MINUTE + 5 * SECOND
        assert scenario.mail.log == []
        assert (await recovered(shop))[-1] == "completed"
        assert len(scenario.mail.log) == 1


@pytest.mark.parametrize("decision", ["happened", "not_happened", "skip", "fail"])
async def test_a_word_that_comes_while_the_job_runs_is_heard(backend: Backend, decision: str) -> None:
    """Goal: nobody's word is lost. Method: one branch is uncertain while another still looks; the word comes then, and
    the job ends by it."""
    async with opened(backend) as shop:
        released = asyncio.get_running_loop().create_future()
        mail = PlainMail()

        async def two(drive: Execution, _: Any) -> Any:
            async def send(key: str) -> Any:
                await mail.send(key, "hello")
                if len(mail.log) == 1:
                    raise TimeoutError("no answer")
                return "sent again"

            async def sending() -> Any:
                try:
                    return await drive.call(DurableCall("send_mail", ["hello"], send))
                except CallFailed as error:
                    return str(error)

            return (await asyncio.gather(sending(), shop.look(drive, "long", lambda: released)))[0]

        job_id = await shop.submit(two)
        run = await shop.claim()
        going = asyncio.create_task(run.go())
        await shop.until("long")
        while not await shop.store.ledger.list(job_id, status=CallStatus.UNCERTAIN):
            await shop.store.wakeups.wait(frozenset({"queue:none"}), 0.005)
        body = {
            "step_key": "0/sending#1/send_mail#1",
            "decision": decision,
            "why": "I asked",
            "result": "found",
        }
        await shop.store.post.send(
            MailDraft(job_id=job_id, kind=MailKind.RECONCILE, operation_id="op-1", sender="ada", body=body)
        )
        run.poke()
        released.set_result("seen")
        ends = [await going, *(await recovered(shop))]
        assert ends[-1] == "completed", (
            "now, or by the next claim if the word came just as the job fell asleep"
        )
        assert len(mail.log) == (2 if decision == "not_happened" else 1)
        expected = {
            "happened": "found",
            "not_happened": "sent again",
            "skip": "found",
            "fail": "I asked",
        }
        assert (await shop.job(job_id)).output == expected[decision]


async def test_a_letter_that_says_nothing_changes_nothing(backend: Backend) -> None:
    async with opened(backend) as shop:
        scenario = Scenario("plain")
        job_id = await crashed(shop, scenario, Point.AFTER_INTENT)
        await recovered(shop)
        for number, body in enumerate(
            ["?", {"step_key": 7}, None, {"step_key": "0/x#1", "decision": "?", "why": ""}]
        ):
            letter = MailDraft(job_id=job_id, kind=MailKind.RECONCILE, operation_id=f"op-{number}", body=body)
            await shop.store.post.send(letter)
            await recovered(shop)
        head = await shop.store.jobs.head(job_id)
        assert (head.status, head.wait_reason) == (Status.WAITING, WaitReason.RECONCILE)
        assert scenario.mail.log == []


async def test_what_a_letter_brings_has_the_place_in_which_the_code_saw_it(backend: Backend) -> None:
    """Goal: replay takes the way of the first run. Method: a look is answered and waits for the disk when a person's
    word on the mail is read; the code notes who was first, and sleeps so that the next run replays it."""
    async with opened(backend) as shop:
        released = asyncio.get_running_loop().create_future()
        mail = PlainMail()
        seen: list[list[str]] = []

        async def two(drive: Execution, _: Any) -> Any:
            order: list[str] = []
            seen.append(order)

            async def send(key: str) -> Any:
                await mail.send(key, "hello")
                raise TimeoutError("no answer")

            async def sending() -> None:
                await drive.call(DurableCall("send_mail", ["hello"], send))
                order.append("mail")

            async def looking() -> None:
                await shop.look(drive, "long", lambda: released)
                order.append("look")

            await asyncio.gather(sending(), looking())
            await sleep(drive, HOUR)
            return order

        job_id = await shop.submit(two)
        run = await shop.claim()
        going = asyncio.create_task(run.go())
        await shop.until("long")
        while not await shop.store.ledger.list(job_id, status=CallStatus.UNCERTAIN):
            await shop.store.wakeups.wait(frozenset({"queue:none"}), 0.005)
        body = {"step_key": "0/sending#1/send_mail#1", "decision": "skip", "why": "I asked"}
        await shop.tell(job_id, MailKind.RECONCILE, body)
        released.set_result("seen")
        while run._execution is None or run._execution.running:
            await shop.store.wakeups.wait(frozenset({"queue:none"}), 0.001)
        run.poke()
        ends = [await going, *await shop.drive_all()]
        shop.clock.advance(2 * HOUR)
        ends += await shop.drive_all()
        assert ends[-1] == "completed"
        output = (await shop.job(job_id)).output
        assert sorted(output) == ["look", "mail"]
        assert all(output[: len(order)] == order for order in seen), "as far as each run came"


async def test_nothing_new_fires_beside_a_recovery(backend: Backend) -> None:
    """Goal: until the calls that were cut off are settled, nothing else goes out (seed 001). Method: one branch is
    killed in the middle of its mail; on resume the other branch is ready to send a new one, and a person is slow."""
    async with opened(backend) as shop:
        sent: list[str] = []
        runs: list[JobRun] = []

        async def cut_off(drive: Execution) -> Any:
            async def send(_key: str) -> Any:
                sent.append("first")
                runs[0].lose(Fenced("this process was killed"))

            return await drive.call(DurableCall("send_first", [], send))

        async def new(drive: Execution) -> Any:
            async def send(_key: str) -> Any:
                sent.append("second")

            await shop.look(drive, "before", lambda: "seen" if len(runs) > 1 else hanging)
            return await drive.call(DurableCall("send_second", [], send))

        async def both(drive: Execution, _: Any) -> Any:
            await asyncio.gather(cut_off(drive), new(drive))

        hanging = asyncio.get_running_loop().create_future()
        job_id = await shop.submit(both)
        runs.append(await shop.claim(worker="one"))
        assert await runs[0].go() == "lost"
        shop.clock.advance(31 * SECOND)
        runs.append(await shop.claim(worker="two"))
        assert await runs[1].go() == "waiting"
        assert (await shop.store.jobs.head(job_id)).wait_reason is WaitReason.RECONCILE
        assert sent == ["first"], "the second mail waits for the word on the first"
        body = {"step_key": "0/cut_off#1/send_first#1", "decision": "happened", "why": "I looked"}
        await shop.tell(job_id, MailKind.RECONCILE, body)
        assert await shop.drive_all() == ["completed"]
        assert sent == ["first", "second"]
