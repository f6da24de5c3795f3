"""Outcomes that are easy to get wrong: a result that cannot be kept, a person's no, a black box that starts again."""

from __future__ import annotations

from typing import Any

import pytest

from holdfast.engine.durable_call import CallPolicy, DurableCall, ProbeResult
from holdfast.engine.execution import Execution
from holdfast.engine.failures import from_recorded_error, record_error, to_raised_error
from holdfast.errors import CallFailed, Fenced, KeyReused, Refused
from holdfast.model.events import JobDeadLettered
from holdfast.model.limits import JSON_BYTES_MAX, JSON_DEPTH_MAX
from holdfast.model.side_effects import CallStatus, Effect, ProbeAnswer
from holdfast.model.states import MailKind, Status, WaitReason
from holdfast.model.time import MINUTE
from holdfast.testing.conformance.harness import Backend
from tests.engine.shop import Shop, opened
from tests.support.fixtures.stores import STORES

stores = pytest.mark.parametrize("backend", STORES, indirect=True)


async def tried_to_the_end(shop: Shop) -> list[str]:
    ends = []
    for _ in range(6):
        ends += await shop.drive_all()
        shop.clock.advance(10 * MINUTE)
    return ends


@stores
async def test_an_effect_whose_result_cannot_be_kept_has_happened(backend: Backend) -> None:
    """Goal: it is not made again because of its answer. Method: a tool that answers with something that is no JSON; the
    job fails with it to the end of its tries."""
    async with opened(backend) as shop:
        sent: list[str] = []

        async def send(key: str) -> Any:
            sent.append(key)
            return object()

        async def program(drive: Execution, _: Any) -> Any:
            await drive.call(DurableCall("send_mail", [], send))

        job_id = await shop.submit(program)
        assert (await tried_to_the_end(shop))[-1] == "waiting"
        assert (await shop.store.jobs.head(job_id)).wait_reason is WaitReason.DEAD_LETTER
        assert len(sent) == 1
        (row,) = await shop.store.ledger.list(job_id)
        assert row.status is CallStatus.SUCCEEDED


@stores
async def test_a_call_that_a_person_failed_is_not_made_again(backend: Backend) -> None:
    """Goal: retries of the job do not overrule a person. Method: an uncertain mail is reconciled as failed, and the
    error leaves the function in every attempt."""
    async with opened(backend) as shop:
        sent: list[str] = []

        async def send(key: str) -> Any:
            sent.append(key)
            raise TimeoutError("no answer")

        async def program(drive: Execution, _: Any) -> Any:
            await drive.call(DurableCall("send_mail", [], send))

        job_id = await shop.submit(program)
        assert await shop.drive_all() == ["waiting"]
        body = {"step_key": "0/send_mail#1", "decision": "fail", "why": "the shop is closed"}
        await shop.tell(job_id, MailKind.RECONCILE, body)
        assert (await tried_to_the_end(shop))[-1] == "waiting"
        assert len(sent) == 1
        assert (await shop.store.jobs.head(job_id)).wait_reason is WaitReason.DEAD_LETTER


@stores
@pytest.mark.parametrize("output", [True, False])
async def test_a_black_box_starts_again_unless_its_output_is_there(backend: Backend, output: bool) -> None:
    """Goal: the first call of a sub-agent that was cut off is `abandoned_on_resume`, or its output is used."""
    async with opened(backend) as shop:
        starts: list[str] = []

        async def box(key: str) -> Any:
            starts.append(key)
            if len(starts) == 1:
                raise Fenced("this process was killed")
            return "second"

        async def probe(_key: str, _args: Any) -> ProbeResult:
            return (
                ProbeResult(ProbeAnswer.HAPPENED, "first")
                if output
                else ProbeResult(ProbeAnswer.NOT_HAPPENED)
            )

        terms = CallPolicy(effect=Effect.UNSAFE, relaunch=True, probe=probe)

        async def program(drive: Execution, _: Any) -> Any:
            return await drive.call(DurableCall("Task", ["research"], box, terms))

        job_id = await shop.submit(program)
        await tried_to_the_end(shop)
        job = await shop.job(job_id)
        rows = await shop.store.ledger.list(job_id)
        assert job.status is Status.COMPLETED
        if output:
            assert (job.output, len(starts)) == ("first", 1)
            assert [row.status for row in rows] == [CallStatus.SUCCEEDED]
        else:
            assert (job.output, len(starts)) == ("second", 2)
            assert [row.status for row in rows] == [CallStatus.ABANDONED, CallStatus.SUCCEEDED]
            assert rows[0].idempotency_key != rows[1].idempotency_key


@stores
async def test_code_that_cancels_itself_has_failed(backend: Backend) -> None:
    async with opened(backend) as shop:
        import asyncio

        async def program(_drive: Execution, _: Any) -> Any:
            task = asyncio.current_task()
            assert task is not None
            task.cancel()
            await asyncio.get_running_loop().create_future()

        job_id = await shop.submit(program)
        assert (await tried_to_the_end(shop))[-1] == "waiting"
        assert (await shop.store.jobs.head(job_id)).wait_reason is WaitReason.DEAD_LETTER


def deep(levels: int) -> Any:
    value: Any = "x"
    for _ in range(levels):
        value = [value]
    return value


KINDS = ["a large result", "a large output", "a deep result", "a deep output", "deep arguments"]


@stores
@pytest.mark.parametrize("what", KINDS)
async def test_what_a_journal_cannot_take_fails_the_attempt(backend: Backend, what: str) -> None:
    """Goal: no job hangs, or is taken for one that kills its workers, because of what its code said. Method: values
    just below the limit of JSON itself, which an event around them exceeds."""
    async with opened(backend) as shop:
        value = "x" * (JSON_BYTES_MAX - 3) if "large" in what else deep(JSON_DEPTH_MAX)

        async def nothing(_key: str) -> Any: ...

        async def program(drive: Execution, _: Any) -> Any:
            if "result" in what:
                return await shop.look(drive, "it", lambda: value) == value
            if "arguments" in what:
                return await drive.call(DurableCall("act", value, nothing))
            return value

        job_id = await shop.submit(program)
        assert (await tried_to_the_end(shop))[0] == "waiting", "the same code says the same again"
        (dead,) = [event for event in await shop.events(job_id) if isinstance(event, JobDeadLettered)]
        assert dead.causes[0]["error"]["type"] in {"TooLarge", "InvalidPayload"}
        assert dead.causes[0]["takeovers"] == 0


class Custom(Exception):
    def __init__(self, code: int) -> None:
        super().__init__(code)
        self.code = code


class Demanding(Exception):
    def __init__(self, *, code: int) -> None:
        super().__init__(f"code {code}")


@pytest.mark.parametrize(
    "error",
    [
        KeyError("x"),
        OSError(28, "No space left on device"),
        Refused("no", hint="ask Ada"),
        Custom(7),
        CallFailed("x", error_type="Y"),
    ],
    ids=lambda error: type(error).__name__,
)
def test_an_error_is_the_same_in_replay(error: Exception) -> None:
    """Compare class, arguments and attributes of what is raised live with what the journal gives."""
    live, again = to_raised_error(error, [Custom]), from_recorded_error(record_error(error), [Custom])
    assert live is error
    assert (type(again), again.args, vars(again)) == (type(live), live.args, vars(live))


@pytest.mark.parametrize(
    "error",
    [
        Demanding(code=1),
        ExceptionGroup("several", [ValueError("x")]),
        UnicodeDecodeError("utf-8", b"x", 0, 1, "bad"),
        KeyReused("reused", stored="a", sent="b"),
    ],
    ids=lambda error: type(error).__name__,
)
def test_an_error_that_cannot_be_made_again_is_a_failed_call_from_the_first_time_on(error: Exception) -> None:
    live, again = to_raised_error(error, [Demanding]), from_recorded_error(record_error(error), [Demanding])
    assert isinstance(live, CallFailed)
    assert isinstance(again, CallFailed)
    assert (str(live), live.error_type) == (str(again), again.error_type)
    assert live.__cause__ is error
