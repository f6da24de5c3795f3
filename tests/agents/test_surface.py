"""What authors write: typed arguments in and out, durable inside a job, plain functions outside."""

from __future__ import annotations

import asyncio
import dataclasses
import datetime as dt
import enum
import hashlib
import threading
import time
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest

import holdfast as hf
from holdfast.errors import (
    Denied,
    InvalidMove,
    InvalidPayload,
    InvalidSetting,
    JobCancelled,
    JobHeld,
    KeyReused,
    Refused,
    TooLarge,
)
from holdfast.model.events import ApprovalRequested, ToolCalled
from holdfast.model.evidence import FileSha256
from holdfast.model.hash_chain import unseal
from holdfast.model.mailbox import MailDraft
from holdfast.model.states import MailKind
from holdfast.runtime.process import Process

pytestmark = pytest.mark.store("sqlite")


@pytest.fixture
def app(tmp_path: Path) -> hf.App:
    return hf.App(store=f"sqlite:///{tmp_path / 'test.db'}")


@asynccontextmanager
async def working(app: hf.App) -> AsyncIterator[Process]:
    async with app.running() as process:
        yield process


@dataclasses.dataclass
class Order:
    id: str
    cents: int
    placed: dt.date


NO_KEY = hf.Key("")


class Colour(enum.Enum):
    RED = "red"


class Label(msgspec.Struct):
    text: str
    colour: Colour


async def test_an_agent_is_called_like_a_function(app: hf.App) -> None:
    """Compare the types on both sides of a journal: what goes in as a dataclass comes out as one, live and replayed."""
    seen: list[Any] = []

    @app.tool(effect="read_only")
    async def lookup(order: Order, *labels: Label, at: dt.datetime) -> tuple[Order, list[Label]]:
        seen.append((order, labels, at))
        return order, list(labels)

    @app.agent
    async def support(order: Order, label: Label) -> Label:
        at = dt.datetime(2026, 11, 16, tzinfo=dt.UTC)
        found, labels = await lookup(order, label, at=at)
        assert (found, labels) == (order, [label])
        await hf.sleep("1ms")  # from here on it is replayed
        return Label(f"{found.placed.year}", labels[0].colour)

    async with working(app):
        order, label = Order("o-1", 5, dt.date(2026, 11, 16)), Label("new", Colour.RED)
        assert await support(order, label) == Label("2026", Colour.RED)
    assert seen == [(order, (label,), dt.datetime(2026, 11, 16, tzinfo=dt.UTC))]


async def test_pydantic_like_models_are_kept_by_their_own_rules(app: hf.App) -> None:
    class Model:
        def __init__(self, size: int) -> None:
            self.size = size

        def model_dump(self, mode: str) -> dict[str, int]:
            assert mode == "json"
            return {"size": self.size}

        @classmethod
        def model_validate(cls, value: dict[str, int]) -> Model:
            return cls(**value)

    async def double(model: Model) -> Model:
        return Model(model.size * 2)

    double.__annotations__ = {"model": Model, "return": Model}
    tool = app.tool(effect="read_only")(double)

    @app.agent
    async def program() -> int:
        return (await tool(Model(21))).size

    async with working(app):
        assert await program() == 42


async def test_outside_a_job_a_tool_is_its_function(app: hf.App) -> None:
    @app.tool
    async def twice(x: int, *, key: hf.Key = NO_KEY) -> int:
        return 2 * x

    assert await twice(4) == 8
    with pytest.raises(InvalidPayload, match="missing a required argument"):
        await twice()  # type: ignore[call-arg]


async def test_the_same_id_is_the_same_job(app: hf.App) -> None:
    calls: Counter[str] = Counter()

    @app.tool(effect="read_only")
    async def look(what: str) -> str:
        calls[what] += 1
        return what.upper()

    @app.agent
    async def program(what: str) -> str:
        return await look(what)

    async with working(app):
        first = await program.start("a", id="ticket-81")
        again = await program.start("a", id="ticket-81")
        assert (first.id, again.id) == ("ticket-81", "ticket-81")
        assert [await first.result(), await again.result()] == ["A", "A"]
        with pytest.raises(KeyReused):
            await program.start("b", id="ticket-81")
    assert calls == {"a": 1}


async def test_agents_inside_agents(app: hf.App) -> None:
    """A call is part of the same job, under keys of its own; a spawn is another job."""

    @app.tool(effect="idempotent")
    async def note(text: str) -> str:
        return hf.context().job_id

    @app.agent
    async def inner(text: str) -> str:
        return await note(text)

    @app.agent
    async def outer() -> list[str]:
        async with hf.scope("first"):
            own = await inner("a")
        return [own, await inner("b"), await hf.spawn(inner, "c")]

    async with working(app) as process:
        job = await outer.start()
        own, same, child = await job.result()
        assert own == same == job.id
        assert child.startswith(f"{job.id}.")
        events = [unseal(one) for one in await process.store.journal.read(job.id)]
        keys = [event.step_key for event in events if isinstance(event, ToolCalled)]
        assert keys == ["0/first#1/inner#1/note#1", "0/inner#1/note#1"]


async def test_time_and_chance_are_the_same_in_replay(app: hf.App) -> None:
    seen: list[tuple[Any, ...]] = []

    @app.agent
    async def program() -> None:
        seen.append((hf.now(), hf.uuid(), hf.random(), hf.uuid()))
        await hf.sleep("1ms")

    async with working(app):
        await program()
    first, replayed = seen
    assert first == replayed
    assert first[1] != first[3]
    assert 0 <= first[2] < 1


async def test_a_blocking_tool_runs_beside_the_loop_and_a_cancel_stops_it(app: hf.App) -> None:
    """Goal: nothing of a cancelled call runs on. Method: a tool that counts for ever in a thread; after the cancel its
    thread is gone."""
    started = threading.Event()
    threads: list[threading.Thread] = []

    @app.tool(effect="unsafe", timeout="1h")
    def count() -> int:
        threads.append(threading.current_thread())
        started.set()
        number = 0
        while True:
            number += 1
            time.sleep(0.001)

    @app.agent
    async def program() -> int:
        return await count()

    async with working(app):
        job = await program.start()
        await asyncio.to_thread(started.wait)
        assert threads[0] is not threading.main_thread()
        await job.cancel("enough")
        with pytest.raises(JobCancelled):
            await job.result()
    threads[0].join(5)
    assert not threads[0].is_alive()


async def test_a_call_that_takes_too_long_is_unclear(app: hf.App) -> None:
    """Goal: the longest call that is written down is the longest there is. Method: an unsafe tool beyond its timeout is
    uncertain, not failed."""

    @app.tool(effect="unsafe", timeout="10ms")
    async def slow() -> None:
        await asyncio.get_running_loop().create_future()

    @app.agent
    async def program() -> None:
        await slow()

    async with working(app) as process:
        job = await program.start()
        head = await process.store.jobs.head(job.id)
        while head.wait_reason is None:
            await process.store.wakeups.wait(frozenset({f"job:{job.id}"}), 0.05)
            head = await process.store.jobs.head(job.id)
        assert head.wait_reason == "reconcile"


async def test_errors_are_caught_by_their_class(app: hf.App) -> None:
    class Empty(Exception):
        pass

    @app.tool(effect="read_only", raises=(Empty,))
    async def draw() -> str:
        raise Empty("nothing left")

    @app.tool(effect="idempotent")
    async def book() -> str:
        raise Refused("fully booked")

    @app.agent
    async def program() -> list[str]:
        said = []
        for call, kind in ((draw, Empty), (book, Refused)):
            try:
                await call()
            except kind as error:
                said.append(str(error))
        await hf.sleep("1ms")
        return said

    async with working(app):
        assert await program() == ["nothing left", "fully booked"]


async def test_leave_is_asked_for_by_the_arguments_names(app: hf.App) -> None:
    paid: list[int] = []

    @app.tool(effect="idempotent", approve=lambda order, cents: bool(order) and cents > 50)
    async def refund(order: str, cents: int) -> int:
        paid.append(cents)
        return cents

    @app.agent
    async def program(cents: int) -> str:
        try:
            return f"paid {await refund('o-1', cents)}"
        except Denied as error:
            return f"denied by {error.by}"

    async with working(app) as process:
        assert await program(50) == "paid 50"
        job = await program.start(51)
        while (await process.store.jobs.head(job.id)).wait_reason != "approval":
            await process.store.wakeups.wait(frozenset({f"job:{job.id}"}), 0.05)
        events = [unseal(one) for one in await process.store.journal.read(job.id)]
        (asked,) = [event for event in events if isinstance(event, ApprovalRequested)]
        body = {"approval_id": asked.approval_id, "decision": "denied"}
        await process.store.post.send(
            MailDraft(job_id=job.id, kind=MailKind.APPROVAL, operation_id="op", body=body, sender="ada")
        )
        assert await job.result() == "denied by ada"
    assert paid == [50]


async def test_a_job_that_fails_too_often_is_held_and_says_how_to_go_on(app: hf.App) -> None:
    @app.agent
    async def program() -> None:
        raise LookupError("no such page")

    async with working(app) as process:
        process._worker._config = msgspec.structs.replace(
            process._worker._config,
            retry=msgspec.structs.replace(process._worker._config.retry, base_us=1, cap_us=1),
        )
        job = await program.start()
        with pytest.raises(JobHeld, match="LookupError: no such page") as caught:
            await job.result()
    assert f"holdfast dead requeue {job.id}" in caught.value.hint


async def test_a_checkpoint_with_evidence_that_is_really_looked_at(app: hf.App, tmp_path: Path) -> None:
    """Goal: a job resumes from a state only while its proof is there. Method: a file is written and proven; after the
    sleep it is still there, or gone: then the job is held with the reason."""

    @app.tool(effect="read_only")
    async def write(name: str) -> str:
        (tmp_path / name).write_bytes(b"report")
        return hashlib.sha256(b"report").hexdigest()

    @app.agent
    async def program(name: str) -> str:
        done = await hf.restore("")
        if not done:
            proof = FileSha256(str(tmp_path / name), await write(name))
            await hf.checkpoint("written", evidence=[proof])
        await hf.wait("go on")
        return await hf.restore("nothing")

    async with working(app) as process:
        kept, gone = await program.start("kept.pdf"), await program.start("gone.pdf")
        for job in (kept, gone):
            while (await process.store.jobs.head(job.id)).wait_reason != "signal":
                await process.store.wakeups.wait(frozenset({f"job:{job.id}"}), 0.05)
        (tmp_path / "gone.pdf").unlink()
        for job in (kept, gone):
            await job.signal("go on")
        assert await kept.result() == "written"
        with pytest.raises(JobHeld, match="evidence of checkpoint 1 no longer holds"):
            await gone.result()


async def test_resume_is_another_word_for_the_task(app: hf.App) -> None:
    """Goal: a sub-agent that is asked to resume is the same call (seed 001's normalisation). Method: the code asks
    for it plainly, and after the sleep, replayed, with `resume`: the recorded outcome is used."""
    asked: list[dict[str, Any]] = []

    @app.tool(name="Task", on_resume="relaunch")
    async def task(prompt: str, task_key: str = "") -> str:
        asked.append({"prompt": prompt, "task_key": task_key})
        return f"findings on {prompt}"

    runs = 0

    @app.agent
    async def program() -> list[str]:
        nonlocal runs
        runs += 1
        again: dict[str, Any] = {} if runs == 1 else {"resume": "task-7"}
        first = await task("kelp", **again)
        await hf.sleep("1ms")
        return [first, await task("tides", resume="task-8")]  # type: ignore[call-arg]

    async with working(app):
        assert await program() == ["findings on kelp", "findings on tides"]
    assert asked == [
        {"prompt": "kelp", "task_key": ""},
        {"prompt": "tides", "task_key": "task-8"},
    ]


# ── misuse ────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("word", ["sleep", "wait", "checkpoint", "restore", "spawn", "now", "uuid", "random"])
async def test_words_for_jobs_say_so_outside_one(app: hf.App, word: str) -> None:
    @app.agent
    async def program() -> None: ...

    async def say() -> None:
        arguments = {"now": (), "uuid": (), "random": (), "spawn": (program,)}.get(word, ("1s",))
        said = getattr(hf, word)(*arguments)
        if asyncio.iscoroutine(said):
            await said

    with pytest.raises(InvalidMove, match=f"hf.{word} outside a job"):
        await say()


def test_declarations_that_make_no_sense_are_refused(app: hf.App) -> None:
    with pytest.raises(InvalidSetting, match="verifiable tool needs a probe"):
        app.tool(effect="verifiable")
    with pytest.raises(InvalidSetting, match="not a side-effect class"):
        app.tool(effect="harmless")
    with pytest.raises(InvalidSetting, match="not a duration"):
        app.tool(effect="idempotent", key_lifetime="soon")
    with pytest.raises(InvalidSetting, match="not declared with `async def`"):
        app.agent(lambda: None)  # type: ignore[arg-type, return-value]

    async def twin() -> None: ...

    app.agent(twin)
    with pytest.raises(InvalidSetting, match="two agents called 'twin'"):
        app.agent(twin)


async def test_arguments_are_checked_before_there_is_a_job(app: hf.App) -> None:
    @app.agent
    async def program(count: int) -> int:
        return count

    async with working(app) as process:
        for wrong in ({"count": "many"}, {}, {"number": 1}):
            with pytest.raises(InvalidPayload):
                await program.start(**wrong)
        with pytest.raises(InvalidPayload, match="cannot be stored"):
            await program.start(object())  # type: ignore[call-overload]
        assert await process.store.jobs.counts() == {}


async def test_a_job_starts_others_by_spawning_them(app: hf.App) -> None:
    @app.agent
    async def other() -> None: ...

    @app.agent
    async def program() -> str:
        try:
            await other.start()
        except InvalidSetting as error:
            return error.hint
        return ""

    async with working(app):
        assert "hf.spawn(other" in await program()


def test_undeclared_is_unsafe(app: hf.App) -> None:
    @app.tool
    async def anything() -> None: ...

    assert anything.terms.effect == "unsafe"


async def test_a_read_may_be_given_a_time_limit(app: hf.App) -> None:
    """Goal: a read that hangs does not hang its job. Method: one that never answers, with and without a catch."""

    @app.tool(effect="read_only", timeout="20ms", retry=hf.Retry(attempts=2, initial=0))
    async def hang() -> str:
        await asyncio.get_running_loop().create_future()
        return "never"

    @app.agent
    async def patient() -> str:
        try:
            return await hang()
        except TimeoutError:
            return "gave up"

    async with working(app):
        assert await patient() == "gave up"


async def test_arguments_that_no_journal_takes_are_an_error_that_code_can_catch(app: hf.App) -> None:
    @app.tool(effect="unsafe")
    async def send(text: str) -> None:
        raise AssertionError(len(text))

    @app.agent
    async def sender() -> str:
        try:
            await send("x" * 1_045_000)
        except TooLarge as error:
            return str(error)
        return "sent"

    async with working(app):
        assert "than the limit of" in await sender()
