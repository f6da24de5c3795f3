"""Tool calls of a model's reply: each once, in order, whatever is cut off, and whatever the model writes."""

from __future__ import annotations

import asyncio
import json
import sys
import textwrap
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

import holdfast as hf
from holdfast.errors import Fenced, InvalidMove, InvalidPayload, InvalidSetting, Unavailable
from holdfast.model.events import ApprovalRequested, CallCancelled, StepFinished, ToolCalled, ToolReturned
from holdfast.model.hash_chain import unseal
from holdfast.model.states import MailKind, Status, WaitReason
from holdfast.model.time import MINUTE
from holdfast.runtime.store_opener import open_store
from holdfast.testing.conformance.harness import Backend
from tests.agents.replies import REPLIES, Asks, answers, chat, claude, faults, responses, texts
from tests.engine.shop import Shop, opened
from tests.support.fixtures.stores import STORES

on_every_store = pytest.mark.parametrize("backend", STORES, indirect=True)
on_memory = pytest.mark.parametrize("backend", ["memory"], indirect=True)
NO_KEY = hf.Key("")


class Bench:
    """Tools that count what they really do."""

    def __init__(self) -> None:
        self.app = hf.App(store="memory:")
        self.done: Counter[str] = Counter()
        self.keys: list[str] = []
        self.begun = asyncio.Event()
        self.gate: asyncio.Event | None = None
        self.look = self.app.tool(effect="read_only", name="look")(self._look)
        self.pay = self.app.tool(effect="idempotent", name="pay")(self._pay)
        self.send = self.app.tool(effect="unsafe", name="send")(self._send)
        self.tools = [self.look, self.pay, self.send]

    def _look(self, what: str) -> str:
        self.done[f"look {what}"] += 1
        return what.upper()

    async def _pay(self, order: str, cents: int = 5, *, key: hf.Key = NO_KEY) -> dict[str, Any]:
        self.done[f"pay {order}"] += 1
        self.keys.append(key)
        self.begun.set()
        if self.gate is not None:
            await self.gate.wait()
        return {"order": order, "cents": cents}

    async def _send(self, to: str) -> None:
        self.done[f"send {to}"] += 1


@pytest.fixture
async def bench() -> Bench:
    return Bench()


async def submitted(shop: Shop, agent: hf.Agent[..., Any]) -> str:
    """A job of this agent, for the workers of this shop."""
    shop.programs[agent.name] = agent.program
    return (await shop.store.jobs.submit(agent.draft({}))).job_id


ALL: Asks = [("look", {"what": "a"}), ("pay", {"order": "o-1"}), ("send", {"to": "ada"})]


# ── every provider's shape ────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("shape", REPLIES)
async def test_answers_stand_in_the_order_of_the_calls(bench: Bench, shape: str) -> None:
    given = await hf.run_tools(REPLIES[shape](ALL), bench.tools)
    assert texts(given) == ["A", '{"cents":5,"order":"o-1"}', "null"]
    prefix = {"claude": "toolu", "chat": "call", "responses": "fc"}[shape.partition("_")[0]]
    assert [call_id for call_id, _text in answers(given)] == [f"{prefix}_{nth}" for nth in range(3)]


async def test_errors_are_marked_where_the_provider_has_a_mark(bench: Bench) -> None:
    given: Any = await hf.run_tools(claude([("look", {"what": "a"}), ("nothing", {})]), bench.tools)
    assert [one.get("is_error") for one in given["content"]] == [None, True]


async def test_a_reply_without_calls(bench: Bench) -> None:
    """Anthropic refuses an empty message; the others take an empty list."""
    given: Any = await hf.run_tools(claude([]), bench.tools)
    assert [one["type"] for one in given["content"]] == ["text"]
    assert await hf.run_tools(chat([]), bench.tools) == []
    assert await hf.run_tools({"role": "assistant", "content": "hello"}, bench.tools) == []
    assert await hf.run_tools(responses([]), bench.tools) == []


@pytest.mark.parametrize("reply", ["text", None, 5, {}, [], {"content": "text"}])
async def test_what_is_no_reply_is_refused(bench: Bench, reply: Any) -> None:
    with pytest.raises(InvalidPayload, match="is not the response of a model"):
        await hf.run_tools(reply, bench.tools)


async def test_two_tools_of_one_name_are_refused(bench: Bench) -> None:
    with pytest.raises(InvalidSetting, match="'look' and 'look' would both have the name"):
        await hf.run_tools(claude([]), [bench.look, bench.look])


# ── hostile model output ──────────────────────────────────────────────────────────────────────────

DEEP = '{"what": ' + "[" * 5_000 + "]" * 5_000 + "}"

WRONG: dict[str, tuple[str, Any, str]] = {
    "an unknown tool": ("rm_rf", {}, "unknown_tool"),
    "an unknown tool of 10 MB": ("x" * 10_000_000, {}, "unknown_tool"),
    "a name with half a character": ("look\ud800\x00", {}, "unknown_tool"),
    "no name": (None, {}, "unknown_tool"),  # type: ignore[dict-item]
    "broken JSON": ("look", '{"what": "a', "invalid_arguments"),
    "JSON and more": ("look", '{"what": "a"} and so on', "invalid_arguments"),
    "a key twice": ("look", '{"what": "a", "what": "b"}', "invalid_arguments"),
    "not a number": ("pay", '{"order": "a", "cents": NaN}', "invalid_arguments"),
    "a list": ("look", "[1]", "invalid_arguments"),
    "very deep": ("look", DEEP, "invalid_arguments"),
    "10 MB of text": ("look", {"what": "x" * 10_000_000}, "invalid_arguments"),
    "10 MB of broken JSON": ("look", "{" * 10_000_000, "invalid_arguments"),
    "a huge number": ("pay", {"order": "a", "cents": 10**30}, "invalid_arguments"),
    "another type": ("pay", {"order": "a", "cents": "many"}, "invalid_arguments"),
    "an argument missing": ("pay", {"cents": 1}, "invalid_arguments"),
    "an argument more": ("look", {"what": "a", "why": "b"}, "invalid_arguments"),
    "an argument called self": ("look", {"what": "a", "self": "b"}, "invalid_arguments"),
    "a key of its own": ("pay", {"order": "a", "key": "k"}, "invalid_arguments"),
}


@pytest.mark.parametrize("wrong", WRONG)
@on_memory
async def test_what_a_model_gets_wrong_is_told_to_it(backend: Backend, bench: Bench, wrong: str) -> None:
    """Goal: nothing a model writes is an exception or an effect. Method: each mistake beside a good call, inside a job,
    as text and as JSON; the good call is answered, the mistake has a small typed answer, and no intent was written."""
    name, given, kind = WRONG[wrong]
    async with opened(backend) as shop:

        @bench.app.agent
        async def program() -> list[Any]:
            said = []
            for style in ("chat_dict", "claude_dict"):
                if style == "claude_dict" and isinstance(given, str):
                    continue  # its arguments are JSON already
                reply = raw(style, name, given)
                said.append(await hf.run_tools(reply, bench.tools))
            return said

        job_id = await submitted(shop, program)
        assert await shop.drive_all() == ["completed"]
        for one in (await shop.job(job_id)).output:
            assert faults(one) == [kind, None]
            assert texts(one)[1] == "FINE"
            assert len(texts(one)[0]) < 20_000
            assert json.loads(texts(one)[0])["error"]["hint"]
            json.dumps(one, ensure_ascii=False).encode()  # it can be sent
        assert not [event for event in await shop.events(job_id) if isinstance(event, ToolCalled)]
    assert set(bench.done) == {"look fine"}


def raw(style: str, name: Any, given: Any) -> dict[str, Any]:
    """As a server sent it, before any client looked at it."""
    fine = {"what": "fine"}
    if style == "claude_dict":
        asked: list[Any] = [(name, given), ("look", fine)]
        blocks = [{"type": "tool_use", "id": "same", "name": n, "input": g} for n, g in asked]
        return {"role": "assistant", "content": blocks}
    wrote = given if isinstance(given, str) else json.dumps(given)
    asked = [(name, wrote), ("look", json.dumps(fine))]
    calls = [{"type": "function", "function": {"name": n, "arguments": g}} for n, g in asked]
    return {"role": "assistant", "content": None, "tool_calls": calls}


@on_memory
async def test_strange_text_goes_through(backend: Backend, bench: Bench) -> None:
    """Half characters and control characters reach the tool as they are, are kept, and come back as something that can
    be sent; in replay the same."""
    strange = "a\ud83d b\x00\x1b[31m\u202e \ud83d\ude00"
    seen: list[str] = []

    @bench.app.tool(effect="idempotent")
    async def echo(text: str) -> Any:
        seen.append(text)
        return text if len(seen) == 1 else [text]

    @bench.app.agent
    async def program() -> list[Any]:
        wrote = json.dumps({"text": strange})
        asks: Asks = [("echo", wrote), ("echo", wrote.replace("\\ud83d b", "\ud83d b"))]
        first = await hf.run_tools(chat_dict(asks), [echo])
        await hf.sleep("1s")  # from here on it is replayed
        return [texts(first)]

    async with opened(backend) as shop:
        job_id = await submitted(shop, program)
        assert await shop.drive_all() == ["waiting"]
        shop.clock.advance(1 * MINUTE)
        assert await shop.drive_all() == ["completed"]
        ((first, second),) = (await shop.job(job_id)).output
    joined = strange.replace("\ud83d\ude00", "\N{GRINNING FACE}")
    assert seen == [joined, joined]
    assert first == joined.replace("\ud83d", "\N{REPLACEMENT CHARACTER}")
    assert json.loads(second) == [joined]
    (first + second).encode()


def chat_dict(asks: Asks) -> dict[str, Any]:
    calls = [{"id": "same", "function": {"name": name, "arguments": given}} for name, given in asks]
    return {"role": "assistant", "content": None, "tool_calls": calls}


async def test_no_arguments_are_written_in_many_ways(bench: Bench) -> None:
    @bench.app.tool(effect="read_only")
    async def ping() -> str:
        return "pong"

    asks: Asks = [("ping", ""), ("ping", " "), ("ping", "{}"), ("ping", "null")]
    assert texts(await hf.run_tools(chat_dict(asks), [ping])) == ["pong"] * 4


class Picky:
    """A type that checks its values with code of its own, which expects the best."""

    @classmethod
    def model_validate(cls, value: dict[str, dict[str, int]]) -> Picky:
        assert value["size"]["cm"] > 0
        return cls()


@pytest.mark.parametrize("given", [{}, {"size": 5}, {"size": {"cm": 0}}, {"size": {"cm": "x"}}, []])
async def test_a_type_that_trips_over_its_value(bench: Bench, given: Any) -> None:
    @bench.app.tool(effect="read_only")
    async def measure(what: Picky) -> str:
        return "measured"

    asks: Asks = [("measure", {"what": given}), ("measure", {"what": {"size": {"cm": 1}}})]
    said = await hf.run_tools(claude(asks), [measure])
    assert faults(said) == ["invalid_arguments", None]


async def test_a_model_hears_the_names_that_it_may_call(bench: Bench) -> None:
    dotted: hf.Tool[..., Any] = hf.Tool(bench.look.function, name="shop.look", terms=bench.look.terms)
    asks: Asks = [("look", {}), ("shop_look", {"what": "a"}), ("shop.look", {"what": "a"})]
    said = texts(await hf.run_tools(claude(asks), [dotted, bench.send]))
    assert json.loads(said[0])["error"]["hint"] == "Call one of: send, shop_look."
    assert said[1:] == ["A", "A"]


async def test_a_long_result_says_what_is_missing(bench: Bench) -> None:
    @bench.app.tool(effect="read_only")
    async def read(size: int) -> str:
        return "é" * size + "end"

    long = "é" * 500_000 + "end"
    (text,) = texts(await hf.run_tools(claude([("read", {"size": 500_000})]), [read]))
    assert len(text.encode()) < 100_100
    cut = len(long.encode()) - 100_000
    assert f"{cut:,} bytes left out" in text
    assert text.endswith("éend")
    (text,) = texts(await hf.run_tools(claude([("read", {"size": 500})]), [read], answer_max=100))
    assert len(text.encode()) < 150
    assert texts(await hf.run_tools(claude([("read", {"size": 3})]), [read])) == ["éééend"]


# ── tools that fail ───────────────────────────────────────────────────────────────────────────────


@on_memory
async def test_what_a_tool_raises_is_its_answer_once(backend: Backend, bench: Bench) -> None:
    """Known outcomes: a read that failed, a refusal, an error of a class of its own. None is tried again, because of
    what it is or what was declared, and a replay says the same."""
    tried: Counter[str] = Counter()

    class Odd(Exception):
        pass

    @bench.app.tool(effect="read_only")
    async def missing() -> str:
        tried["missing"] += 1
        raise LookupError("no such page")

    @bench.app.tool(effect="unsafe")
    async def booked() -> str:
        tried["booked"] += 1
        raise hf.Refused("fully booked", hint="Try tomorrow.")

    @bench.app.tool(effect="read_only", retry=hf.Retry(never=(Odd,)))
    async def odd() -> str:
        tried["odd"] += 1
        raise Odd("\ud800" * 10_000)

    @bench.app.agent
    async def program() -> list[Any]:
        asks: Asks = [("missing", {}), ("booked", {}), ("odd", {}), ("look", {"what": "a"})]
        first = await hf.run_tools(claude(asks), [missing, booked, odd, bench.look])
        await hf.sleep("1s")
        return [faults(first), [text.encode().decode() for text in texts(first)]]

    async with opened(backend) as shop:
        job_id = await submitted(shop, program)
        assert await shop.drive_all() == ["waiting"]
        shop.clock.advance(1 * MINUTE)
        assert await shop.drive_all() == ["completed"]
        kinds, said = (await shop.job(job_id)).output
    assert kinds == ["tool_failed", "tool_failed", "tool_failed", None]
    assert tried == {"missing": 1, "booked": 1, "odd": 1}
    assert "LookupError: no such page" in said[0]
    assert json.loads(said[1])["error"] == {
        "type": "tool_failed",
        "message": "fully booked",
        "hint": "Try tomorrow.",
    }


@on_memory
async def test_a_person_who_says_no_is_quoted(backend: Backend, bench: Bench) -> None:
    @bench.app.tool(effect="unsafe", approve=True)
    async def fire(who: str) -> str:
        bench.done["fire"] += 1
        return who

    @bench.app.agent
    async def program() -> Any:
        return await hf.run_tools(
            claude([("fire", {"who": "bob"}), ("look", {"what": "a"})]), [fire, bench.look]
        )

    async with opened(backend) as shop:
        job_id = await submitted(shop, program)
        assert await shop.drive_all() == ["waiting"]
        (asked,) = [event for event in await shop.events(job_id) if isinstance(event, ApprovalRequested)]
        assert asked.args == {"who": "bob"}
        await shop.tell(job_id, MailKind.APPROVAL, {"approval_id": asked.approval_id, "decision": "denied"})
        assert await shop.drive_all() == ["completed"]
        assert faults((await shop.job(job_id)).output) == ["denied", None]
    assert "fire" not in bench.done


@on_memory
async def test_an_unknown_outcome_is_no_answer(backend: Backend, bench: Bench) -> None:
    """An unsafe tool that breaks off is held for a person, not told to the model; the call beside it is recorded."""

    @bench.app.tool(effect="unsafe")
    async def wire(cents: int) -> str:
        bench.done["wire"] += 1
        raise ConnectionResetError("gone")

    @bench.app.agent
    async def program() -> Any:
        return await hf.run_tools(
            claude([("wire", {"cents": 5}), ("look", {"what": "a"})]), [wire, bench.look]
        )

    async with opened(backend) as shop:
        job_id = await submitted(shop, program)
        assert await shop.drive_all() == ["waiting"]
        assert (await shop.store.jobs.head(job_id)).wait_reason == WaitReason.RECONCILE
        (row,) = await shop.store.ledger.list(job_id)
        body = {"step_key": row.step_key, "decision": "happened", "why": "I looked", "result": "sent"}
        await shop.tell(job_id, MailKind.RECONCILE, body)
        assert await shop.drive_all() == ["completed"]
        assert texts((await shop.job(job_id)).output) == ["sent", "A"]
    assert bench.done == {"wire": 1, "look a": 1}


@on_memory
@pytest.mark.parametrize("error", [Unavailable("later"), InvalidMove("not here")])
async def test_what_is_not_the_models_to_deal_with_passes_through(
    backend: Backend, bench: Bench, error: Exception
) -> None:
    """Its neighbour, which ends later than it, is not cut off."""

    @bench.app.tool(effect="read_only")
    async def broken() -> str:
        raise error

    caught: list[str] = []

    @bench.app.agent
    async def program() -> None:
        try:
            await hf.run_tools(claude([("broken", {}), ("slow", {})]), [broken, slow])
        except type(error) as raised:
            caught.append(str(raised))

    async with opened(backend) as shop:

        @bench.app.tool(effect="read_only")
        async def slow() -> None:
            while await outcomes(shop, job_id) < 1:
                await shop.store.wakeups.wait(frozenset({f"job:{job_id}"}), 0.05)
            await shop.store.wakeups.wait(frozenset({"nothing rings here"}), 0.05)
            bench.done["slow"] += 1

        job_id = await submitted(shop, program)
        assert await shop.drive_all() == ["completed"]
    assert caught == [str(error)]
    assert bench.done == {"slow": 1}


# ── durability ────────────────────────────────────────────────────────────────────────────────────


@on_every_store
async def test_cut_off_between_parallel_tools(backend: Backend, bench: Bench) -> None:
    """Goal: a finished call is never made again, a cut-off one is made again under the same key. Method: four
    calls at once, one of them slow; the worker is lost while it runs and the others are on disk; another goes on."""
    bench.gate = asyncio.Event()
    asks: Asks = [
        ("look", {"what": "a"}),
        ("pay", {"order": "slow"}),
        ("send", {"to": "ada"}),
        ("look", {"what": "b"}),
    ]

    @bench.app.agent
    async def program() -> Any:
        return texts(await hf.run_tools(claude(asks), bench.tools))

    async with opened(backend) as shop:
        job_id = await submitted(shop, program)
        run = await shop.claim(worker="one")
        going = asyncio.create_task(run.go())
        await bench.begun.wait()
        while await outcomes(shop, job_id) < 3:
            await shop.store.wakeups.wait(frozenset({f"job:{job_id}"}), 0.05)
        run.lose(Fenced("this process was killed"))
        assert await going == "lost"
        assert bench.done == {"look a": 1, "pay slow": 1, "send ada": 1, "look b": 1}
        bench.gate.set()
        shop.clock.advance(2 * MINUTE)
        assert await shop.drive_all(worker="two") == ["completed"]
        assert bench.done == {"look a": 1, "pay slow": 2, "send ada": 1, "look b": 1}
        assert (await shop.job(job_id)).output == ["A", '{"cents":5,"order":"slow"}', "null", "B"]
        events = await shop.events(job_id)
    assert len(set(bench.keys)) == 1
    called = {event.step_key for event in events if isinstance(event, ToolCalled)}
    looked = {event.step_key for event in events if isinstance(event, StepFinished)}
    assert called == {"0/run_tools#1/call-1#1/pay#1", "0/run_tools#1/call-2#1/send#1"}
    assert looked == {"0/run_tools#1/call-0#1/look#1", "0/run_tools#1/call-3#1/look#1"}


async def outcomes(shop: Shop, job_id: str) -> int:
    """How many outcomes are on disk."""
    return sum(isinstance(event, ToolReturned | StepFinished) for event in await shop.events(job_id))


@on_memory
async def test_a_lone_call_has_the_key_that_it_would_have_beside_others(
    backend: Backend, bench: Bench
) -> None:
    @bench.app.agent
    async def program() -> None:
        await hf.run_tools(claude([("send", {"to": "ada"})]), bench.tools)
        await hf.run_tools(claude([("send", {"to": "bob"}), ("send", {"to": "bob"})]), bench.tools)

    async with opened(backend) as shop:
        job_id = await submitted(shop, program)
        assert await shop.drive_all() == ["completed"]
        events = await shop.events(job_id)
    keys = [event.step_key for event in events if isinstance(event, ToolCalled)]
    assert keys == [
        "0/run_tools#1/call-0#1/send#1",
        "0/run_tools#2/call-0#1/send#1",
        "0/run_tools#2/call-1#1/send#1",
    ]


@on_memory
async def test_code_that_gives_up_cancels_what_runs(backend: Backend, bench: Bench) -> None:
    bench.gate = asyncio.Event()

    @bench.app.agent
    async def program() -> str:
        running = asyncio.ensure_future(
            hf.run_tools(claude([("pay", {"order": "a"}), ("look", {"what": "a"})]), bench.tools)
        )
        await bench.look("b")
        running.cancel()
        await asyncio.wait([running])
        return "cancelled" if running.cancelled() else "answered"

    async with opened(backend) as shop:
        job_id = await submitted(shop, program)
        assert await shop.drive_all() == ["completed"]
        assert (await shop.job(job_id)).output == "cancelled"
        assert any(isinstance(event, CallCancelled) for event in await shop.events(job_id))


@on_memory
async def test_an_agent_among_the_tools_is_a_job_of_its_own(backend: Backend, bench: Bench) -> None:
    @bench.app.agent
    async def research(topic: str, depth: int = 1) -> dict[str, Any]:
        """Find out about a topic."""
        return {"job": hf.context().job_id, "topic": topic, "depth": depth}

    asks: Asks = [("research", {"topic": "kelp"}), ("research", {"topic": 5}), ("look", {"what": "a"})]

    @bench.app.agent
    async def program() -> Any:
        return await hf.run_tools(claude(asks), [research, bench.look])

    async with opened(backend) as shop:
        shop.programs["research"] = research.program
        job_id = await submitted(shop, program)
        await shop.drive_all()
        job = await shop.job(job_id)
        assert job.status is Status.COMPLETED
    found, wrong, looked = texts(job.output)
    assert json.loads(found)["topic"] == "kelp"
    assert json.loads(found)["job"].startswith(f"{job_id}.")
    assert json.loads(wrong)["error"]["type"] == "invalid_arguments"
    assert looked == "A"


async def test_outside_a_job_an_agent_is_a_job_of_its_own_too(bench: Bench) -> None:
    @bench.app.agent
    async def research(topic: str) -> str:
        return f"{hf.context().kind} {topic}"

    async with bench.app.running():
        given = await hf.run_tools(claude([("research", {"topic": "kelp"})]), [research])
    assert texts(given) == ["research kelp"]


# ── a real process, really killed ─────────────────────────────────────────────────────────────────

WORKER = textwrap.dedent(
    """
    import asyncio, sys
    import holdfast as hf

    address, log, who = sys.argv[1:]
    app = hf.App(store=address)
    replies = [["lookup", {"what": "a"}], ["send", {"to": "ada"}], ["pay", {"order": "slow"}], ["nothing", {}]]

    def did(*words):
        with open(log, "a") as lines:
            print(*words, file=lines, flush=True)

    @app.tool(effect="read_only")
    def lookup(what: str) -> str:
        did("lookup")
        return what.upper()

    @app.tool
    async def send(to: str) -> str:
        did("send")
        return f"sent to {to}"

    @app.tool(effect="idempotent")
    async def pay(order: str, *, key: hf.Key = hf.Key("")) -> str:
        did("pay", key)
        if who == "first":
            await asyncio.get_running_loop().create_future()
        return "paid"

    @app.agent
    async def program() -> list[str]:
        blocks = [{"type": "tool_use", "id": "same", "name": name, "input": given} for name, given in replies]
        said = await hf.run_tools({"role": "assistant", "content": blocks}, [lookup, send, pay])
        return [one["content"] for one in said["content"]]

    async def main():
        async with app.running():
            print((await (await program.start(id="job")).result())[:3])

    asyncio.run(main())
    """
)


@pytest.mark.store("sqlite")
async def test_a_worker_killed_between_parallel_tools(tmp_path: Path) -> None:
    """kill -9 while one of three calls is under way and two are on disk: the next process makes that one again, under
    its key, and the others not."""
    address, log, script = f"sqlite:///{tmp_path / 'test.db'}", tmp_path / "log", tmp_path / "worker.py"
    script.write_text(WORKER)

    async def started(who: str) -> asyncio.subprocess.Process:
        return await asyncio.create_subprocess_exec(
            sys.executable, str(script), address, str(log), who, stdout=asyncio.subprocess.PIPE
        )

    def done() -> list[str]:
        return log.read_text().splitlines() if log.exists() else []

    store = await open_store(address)
    try:
        async with asyncio.timeout(60):
            first = await started("first")
            settled = 0
            while settled < 2 or len(done()) < 3:
                await store.wakeups.wait(frozenset({"job:job"}), 0.05)
                settled = sum(
                    isinstance(unseal(one), ToolReturned | StepFinished)
                    for one in await store.journal.read("job")
                )
            first.kill()
            await first.wait()
            second = await started("second")
            said, _ = await second.communicate()
        assert said.decode().strip() == "['A', 'sent to ada', 'paid']"
    finally:
        await store.close()
    words = Counter(line.partition(" ")[0] for line in done())
    assert words == {"lookup": 1, "send": 1, "pay": 2}
    assert len({line for line in done() if line.startswith("pay")}) == 1, "one key"
