"""Sessions and the built-in assistant: turns, messages that come meanwhile, branches, summaries, crashes."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

import holdfast as hf
from holdfast.engine.replay_check import replay
from holdfast.engine.verify.verify import verify
from holdfast.errors import InvalidPayload, InvalidSetting, JobCancelled, NotFound
from holdfast.model.events import JobCompleted, LlmRequested, LlmResponded, PlanGenerated, TurnCommitted
from holdfast.model.hash_chain import unseal
from holdfast.runtime.process import Process
from holdfast.store.clock import SystemClock
from holdfast.store.ports.sessions import FULL_GRAPH
from holdfast.store.tables.store import SqlStore

pytestmark = pytest.mark.store("sqlite")

CHAT: list[Any] = [
    {"when": "where", "calls": [{"tool": "lookup", "args": {"order": "42"}}]},
    {"after": "lookup", "text": "It is {result}."},
    {"when": "name", "turn": 1, "text": "You said {first}."},
    "Hello.",
]


@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=pytest.mark.store("postgres"))])
def app(request: pytest.FixtureRequest, tmp_path: Path) -> hf.App:
    if request.param == "postgres":
        return hf.App(store=request.getfixturevalue("postgres_database"))
    return hf.App(store=f"sqlite:///{tmp_path / 'test.db'}")


async def facts(process: Process, job_id: str) -> list[Any]:
    return [unseal(sealed) for sealed in await process.store.journal.read(job_id)]


async def clean(process: Process) -> None:
    assert isinstance(process.store, SqlStore)
    report = await verify(process.store)
    assert report.clean, report.violations


# ── turns ─────────────────────────────────────────────────────────────────────────────────────────


async def test_a_session_keeps_its_state_and_its_messages(app: hf.App) -> None:
    @app.session
    async def clerk(turn: hf.Turn) -> str:
        turn.state = {"asked": (turn.state or {"asked": 0})["asked"] + 1}
        return f"{len(turn.history)} before, {turn.state['asked']} asked"

    async with app.running() as process:
        ada, bob = clerk.session("ada"), clerk.session("bob")
        assert await ada.send("one") == "0 before, 1 asked"
        assert await ada.send("two") == "2 before, 2 asked"
        assert await bob.send("one") == "0 before, 1 asked"
        said = [message["content"] for message in await ada.messages()]
        assert said == ["one", "0 before, 1 asked", "two", "2 before, 2 asked"]
        await clean(process)


async def test_everything_of_a_turn_is_one_append(app: hf.App, monkeypatch: pytest.MonkeyPatch) -> None:
    """Goal: nobody sees a committed turn of an unfinished job, or the other way. Method: what the store is given to
    append has both facts in one."""
    appended: list[list[str]] = []

    def watch(journal: Any, name: str) -> None:
        append = getattr(journal, name)

        def noting(given: Any) -> Any:
            appends = given if isinstance(given, list) else [given]
            appended.extend([event.type for event in one.events] for one in appends)
            return append(given)

        monkeypatch.setattr(journal, name, noting)

    @app.session
    async def clerk(turn: hf.Turn) -> str:
        return "done"

    async with app.running() as process:
        watch(process.store.journal, "append_many")
        watch(process.store.journal, "append_now")
        job = await clerk.session("ada").post("one")
        assert await job.result() == "done"
        # Twice the same, if it was tried on the spot and then sent.
        ends = {tuple(types[-2:]) for types in appended if {TurnCommitted.type, JobCompleted.type} & {*types}}
        assert ends == {(TurnCommitted.type, JobCompleted.type)}
        view = await clerk.session("ada").view()
        assert view is not None
        assert view.revision == 1


async def test_a_message_sent_twice_under_one_id_is_answered_once(app: hf.App) -> None:
    @app.session
    async def clerk(turn: hf.Turn) -> str:
        return f"turn {len(turn.history) // 2}"

    async with app.running():
        ada = clerk.session("ada")
        first = await ada.post("one", id="m-1")
        again = await ada.post("one", id="m-1")
        assert first.id == again.id
        assert [await first.result(), await again.result()] == ["turn 0", "turn 0"]
        assert len(await ada.messages()) == 2


async def test_a_handler_must_be_async_and_have_a_name_of_its_own(app: hf.App) -> None:
    app.assistant("helper")
    with pytest.raises(InvalidSetting, match="two agents called 'helper'"):
        app.assistant("helper")
    with pytest.raises(InvalidSetting, match="not declared with `async def`"):
        app.session(lambda _turn: "x")  # type: ignore[arg-type,return-value]


# ── the assistant ─────────────────────────────────────────────────────────────────────────────────


def assistant_of(app: hf.App, **options: Any) -> Any:
    @app.tool(effect="read_only")
    async def lookup(order: str) -> str:
        """Where an order is."""
        return f"order {order}, on its way"

    return app.assistant("helper", model=options.pop("model", CHAT), tools=[lookup], **options)


async def test_an_assistant_uses_tools_and_remembers(app: hf.App) -> None:
    helper = assistant_of(app)
    async with app.running() as process:
        ada = helper.session("ada")
        assert await ada.send("I am Ada") == "Hello."
        assert await ada.send("what is my name?") == "You said I am Ada."
        assert await ada.send("where is my order?") == "It is order 42, on its way."
        roles = [message["role"] for message in await ada.messages()]
        assert roles == ["user", "assistant"] * 4
        view = await ada.view()
        assert view is not None
        (usage,) = view.usage
        assert usage.source == "helper"
        assert usage.output_tokens > 0
        await clean(process)


async def test_what_was_said_is_stored_once(app: hf.App) -> None:
    """Goal: a long conversation grows by what is said. Method: requests name the session, not its messages; the journal
    holds no input."""
    helper = assistant_of(app)
    async with app.running() as process:
        ada = helper.session("ada")
        await ada.send("I am Ada, and this is a secret word: xyzzy")
        job = await ada.post("hello again")
        await job.result()
        events = await facts(process, job.id)
        (request,) = [one for one in events if isinstance(one, LlmRequested)]
        assert request.after.startswith("node:")
        assert len(request.messages) == 1, "what is asked besides the messages"
        for sealed in await process.store.journal.read(job.id):
            assert b"hello again" not in (sealed.body or b"")


async def test_a_finished_turn_is_replayed(app: hf.App) -> None:
    helper = assistant_of(app)
    async with app.running() as process:
        ada = helper.session("ada")
        await ada.send("I am Ada")
        job = await ada.post("where is my order?")
        assert await job.result() == "It is order 42, on its way."
        await ada.send("hello")
        verdict = await replay(process.store, job.id, helper.program, clock=SystemClock())
        assert verdict.same, verdict


async def test_an_assistant_with_a_planner_does_what_was_planned_first(app: hf.App) -> None:
    """The plan is a fact of the turn; the model is told what came of it."""
    nodes = [
        {"name": "first", "tool": "lookup", "args": {"order": "1"}},
        {"name": "second", "tool": "lookup", "args": {"order": {"$ref": "first"}}},
    ]
    helper = assistant_of(
        app,
        model=["I know: {said}"],
        planner=[{"calls": [{"tool": "submit_plan", "args": {"nodes": nodes}}]}],
    )
    async with app.running() as process:
        job = await helper.session("ada").post("find them")
        said = await job.result()
        assert "order order 1, on its way, on its way" in said
        assert sum(isinstance(one, PlanGenerated) for one in await facts(process, job.id)) == 1
        assert (await replay(process.store, job.id, helper.program, clock=SystemClock())).same
        await clean(process)


# ── messages that come while it works ─────────────────────────────────────────────────────────────


class Slow:
    """An assistant whose tool waits until the test lets it go."""

    def __init__(self, app: hf.App) -> None:
        self.begun, self.go_on = asyncio.Event(), asyncio.Event()
        self.asked: list[list[str]] = []

        @app.tool(effect="read_only")
        async def dig() -> str:
            """Dig."""
            self.begun.set()
            await self.go_on.wait()
            return "earth"

        model = hf.llm(
            [
                {"when": "dig", "turn": 0, "calls": [{"tool": "dig"}]},
                {"when": "rest", "turn": 0, "text": "I heard: {said}."},
                {"turn": 1, "text": "I heard: {said}."},
                {"text": "Then I heard: {said}."},
            ]
        )
        ask = model.ask

        async def noted(messages: Any, **options: Any) -> Any:
            self.asked.append([one["content"] for one in messages if isinstance(one["content"], str)])
            return await ask(messages, **options)

        model.ask = noted  # type: ignore[method-assign]
        self.assistant = app.assistant("digger", model=model, tools=[dig])


async def test_a_message_that_comes_meanwhile_reaches_the_model_in_the_same_turn(app: hf.App) -> None:
    slow = Slow(app)
    async with app.running() as process:
        ada = slow.assistant.session("ada")
        first = await ada.post("dig")
        await slow.begun.wait()
        second = await ada.post("and look for roots")
        slow.go_on.set()
        assert await first.result() == "I heard: and look for roots."
        assert await second.result() == "I heard: and look for roots.", "its turn is the first one's"
        assert slow.asked == [["dig"], ["dig", "and look for roots"]]
        view = await ada.view()
        assert view is not None
        assert view.revision == 1, "one turn"
        await clean(process)


async def test_a_message_that_waits_for_the_commit_reaches_the_model_in_the_next_turn(app: hf.App) -> None:
    slow = Slow(app)
    async with app.running() as process:
        ada = slow.assistant.session("ada")
        first = await ada.post("dig")
        await slow.begun.wait()
        second = await ada.post("and rest", when="after_current_turn_commit")
        slow.go_on.set()
        assert await first.result() == "I heard: dig."
        assert await second.result() == "Then I heard: and rest."
        view = await ada.view()
        assert view is not None
        assert view.revision == 2
        await clean(process)


async def test_a_turn_that_was_cancelled_leaves_nothing_and_the_next_goes_on(app: hf.App) -> None:
    """Goal: whoever stops an answer does not get it later. Method: cancelled in the middle of a tool, with a second
    message in its turn already: that one is answered, in a turn of its own."""
    slow = Slow(app)
    async with app.running() as process:
        ada = slow.assistant.session("ada")
        first = await ada.post("dig")
        await slow.begun.wait()
        second = await ada.post("and rest", when="after_current_turn_commit")
        await first.cancel("never mind")
        with pytest.raises(JobCancelled):
            await first.result()
        slow.go_on.set()
        assert await second.result() == "I heard: and rest."
        said = [message["content"] for message in await ada.messages()]
        assert "dig" not in said
        await clean(process)


# ── branches ──────────────────────────────────────────────────────────────────────────────────────


async def test_a_message_can_be_said_otherwise_and_both_answers_stay(app: hf.App) -> None:
    helper = assistant_of(app, model=["You said {said}."])
    async with app.running() as process:
        ada = helper.session("ada")
        await ada.send("one")
        await ada.send("two")
        view = await ada.view()
        assert view is not None
        _, first_answer, second, _ = view.graph.nodes
        assert await ada.retry(second.node_id, "three") == "You said three."
        said = [message["content"] for message in await ada.messages()]
        assert [one for one in said if isinstance(one, str)] == ["one", "three"]
        whole = await process.store.sessions.load("ada", FULL_GRAPH)
        assert whole is not None
        assert len(whole.graph.nodes) == 6, "the other branch is still there"
        await ada.branch(first_answer.node_id)
        assert await ada.send("four") == "You said four."
        assert len(await ada.messages()) == 4
        with pytest.raises(NotFound):
            await ada.branch("nobody")
        with pytest.raises(NotFound):
            await ada.retry(first_answer.node_id)
        await clean(process)


# ── files ─────────────────────────────────────────────────────────────────────────────────────────


async def test_a_file_is_stored_once_and_shown_to_the_model(app: hf.App) -> None:
    """Goal: messages name files, models see bytes. Method: two turns about one picture; the node holds its name, the
    model's second request its bytes, and the turn has stamped the promise."""
    shown: list[Any] = []
    model = hf.llm(["I see."])
    ask = model.ask

    async def noted(messages: Any, **options: Any) -> Any:
        shown.append(messages[0]["content"])
        return await ask(messages, **options)

    model.ask = noted  # type: ignore[method-assign]
    helper = app.assistant("viewer", model=model)
    async with app.running() as process:
        ada = helper.session("ada")
        picture = await ada.attach(b"\x89PNG" + b"x" * 100_000, media_type="image/png")
        unused = await ada.attach(b"never sent", media_type="text/plain")
        await ada.send([picture, {"type": "text", "text": "What is this?"}])
        await ada.send("And now?")
        for content in shown:
            assert content[0]["type"] == "image"
            assert content[0]["source"]["media_type"] == "image/png"
            assert content[1] == {"type": "text", "text": "What is this?"}
        (first, *_) = await ada.messages()
        assert first["content"][0] == picture
        left = await process.store.attachments.list_uncommitted(2**62)
        assert [intent.attachment_id for intent in left] == [unused["attachment_id"]]
        with pytest.raises(InvalidPayload):
            await ada.attach("text", media_type="text/plain")  # type: ignore[arg-type]
        await clean(process)


# ── summaries ─────────────────────────────────────────────────────────────────────────────────────


async def test_a_conversation_that_grew_too_long_goes_on_from_a_summary(app: hf.App) -> None:
    helper = assistant_of(
        app,
        model=[
            {"when": "Summarise", "text": "Ada said her name."},
            {"when": "again", "text": "First I know: {first}"},
            "Hello. " * 50,
        ],
        context_tokens_max=50,
    )
    async with app.running() as process:
        ada = helper.session("ada")
        await ada.send("I am Ada")
        assert await ada.send("again?") == "First I know: What was said before, in short: Ada said her name."
        view = await ada.view()
        assert view is not None
        (frame,) = view.frames
        assert (frame.reason, view.frame_id) == ("compaction", frame.frame_id)
        assert len(await ada.messages()) == 4, "nothing is lost of what was said"
        job = await ada.post("again!")
        assert "in short" in await job.result(), "the next turn starts from the summary, too"
        requests = [one for one in await facts(process, job.id) if isinstance(one, LlmRequested)]
        assert len(requests) >= 1
        await clean(process)


# ── what a crash leaves ───────────────────────────────────────────────────────────────────────────


async def test_a_turn_that_is_taken_over_goes_on_with_its_inputs(tmp_path: Path) -> None:
    """Method: the process is closed in the middle of a tool; a second one on the same file finishes the turn. The model
    is not asked again for what it answered, and the message is in the session once."""
    store = f"sqlite:///{tmp_path / 'test.db'}"
    first = hf.App(store=store)
    slow = Slow(first)
    async with first.running():
        job = await slow.assistant.session("ada").post("dig")
        await slow.begun.wait()
    second = hf.App(store=store)
    again = Slow(second)
    again.go_on.set()
    async with second.running() as process:
        await process.result(job.id)
        replies = [one for one in await facts(process, job.id) if isinstance(one, LlmResponded)]
        assert len(slow.asked) + len(again.asked) >= len(replies)
        assert again.asked[0] == ["dig"], "asked by the code again, answered from the record"
        requests = [one for one in await facts(process, job.id) if isinstance(one, LlmRequested)]
        assert [one.attempt for one in requests] == [1] * len(requests)
        await clean(process)
