"""`survives_crashes`: right agents survive everywhere, and what is wrong with the others is said by name."""

from __future__ import annotations

import asyncio
import socketserver
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import holdfast as hf
from holdfast.demo import agent as demo
from holdfast.demo.outside import Outside
from holdfast.engine.crash_points import Point
from holdfast.errors import InvalidMove, InvalidSetting
from holdfast.testing import DidNotSurvive, Survival, survives_crashes, survives_crashes_async
from tests.agents.testing.agents import World, right_agents, wrong_agents
from tests.simulation.planted_bugs import MUSEUM

RIGHT = list(right_agents(World()))


@pytest.fixture
def world() -> World:
    return World()


def killed(world: World, agent: Any, **options: Any) -> Survival:
    signals = {"paid:42": {"cents": 7}}
    witness: dict[str, Any] = {"effects": lambda: sorted(world.log), "reset": world.reset, "signals": signals}
    return survives_crashes(agent, "Ada", **(witness | options))


def message(world: World, name: str, **options: Any) -> str:
    with pytest.raises(DidNotSurvive) as caught:
        killed(world, wrong_agents(world)[name], **options)
    return str(caught.value)


# ── right ones ────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.store("memory")
@pytest.mark.parametrize("name", RIGHT)
def test_a_right_agent_survives(name: str, world: World) -> None:
    """Every class of effect, sleep, signal, timeout, approval, children, relaunch, gather, checkpoints."""
    survival = killed(world, right_agents(world)[name])
    assert survival.survived
    passed = {row.point.partition("#")[0] for row in survival.points}
    assert passed >= {*map(str, Point), "leases.claim:before", "journal.append_many:after"}
    assert not [row for row in survival.points if row.outcome == "not reached this time"]


@pytest.mark.store("memory")
def test_the_table(world: World) -> None:
    """Every write and every point around the effect, in order, and what recovery did there."""
    assert str(killed(world, right_agents(world)["mails"])).splitlines() == [
        "mails survived all 13 crash points",
        "",
        "point                                   · step                                 · what came of it",
        "leases.claim:before                     ·                                      · went on",
        "leases.claim:after                      ·                                      · went on",
        "before_intent                           · send                                 · look was read again",
        "journal.append_many:before              · step_finished look, tool_called send · look was read again",
        (
            "journal.append_many:after               · step_finished look, tool_called send"
            " · send was uncertain, and a person said: it had not happened"
        ),
        (
            "after_intent_before_call                · send                                "
            " · send was uncertain, and a person said: it had not happened"
        ),
        (
            "after_tool_success_before_receipt       · send                                "
            " · send was uncertain, and a person said: it had happened"
        ),
        (
            "after_tool_success_before_ledger_commit · send                                "
            " · send was uncertain, and a person said: it had happened"
        ),
        (
            "journal.append_many:before#2            · tool_returned send                  "
            " · send was uncertain, and a person said: it had happened"
        ),
        "journal.append_many:after#2             · tool_returned send                   · went on",
        "after_ledger_mark_succeeded             · send                                 · went on",
        "journal.append_many:before#3            · job_completed                        · went on",
        "journal.append_many:after#3             · job_completed                        · went on",
    ]


@pytest.mark.store("memory")
def test_killed_again_while_it_recovers(world: World) -> None:
    """Each point, and then each point that the next worker passes."""
    survival = killed(world, right_agents(world)["mails"], kill="twice")
    pairs = [row for row in survival.points if " then " in row.point]
    assert survival.survived
    assert len(pairs) > 5 * (len(survival.points) - len(pairs))


@pytest.mark.store("memory")
async def test_from_an_async_test(world: World) -> None:
    with pytest.raises(InvalidMove) as caught:
        killed(world, right_agents(world)["mails"])
    assert "survives_crashes_async" in caught.value.hint
    survival = await survives_crashes_async(right_agents(world)["mails"], "Ada", reset=world.reset)
    assert len(survival.points) == 13


@pytest.mark.store("memory")
def test_the_mailed_report_survives(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The agent of `holdfast demo`, its blocking tools in their threads, its receivers behind real HTTP and SMTP."""
    outside = Outside()
    http, smtp = outside.open()
    for name, value in {
        "HTTP": http,
        "SMTP": smtp,
        "FOLDER": tmp_path,
        "WITNESS": tmp_path / "witness",
    }.items():
        monkeypatch.setattr(demo, name, value)

    def reset() -> None:
        outside.files.clear()
        outside.mails.clear()

    def effects() -> list[str]:
        return [*("file" for _ in outside.files), *("mail" for _ in outside.mails)]

    try:
        survival = survives_crashes(demo.report, "kelp", to="ada@example.org", effects=effects, reset=reset)
    finally:
        outside.close()
    assert effects() == ["file", "mail"]
    outcomes = {
        row.outcome for row in survival.points
    }  # what runs in parallel is not reached in the same order twice
    assert outcomes - {"not reached this time"} == {
        "went on",
        "read was read again",
        "render was made again; it takes no key",
        "upload was sent again under its key",
        "send_email was looked up: it had happened",
        "send_email was looked up: it had not happened",
    }


class Slow(socketserver.StreamRequestHandler):
    """Answers after a while of real time."""

    def handle(self) -> None:
        said = self.rfile.readline()
        threading.Event().wait(0.05)
        self.wfile.write(said.upper())


@pytest.mark.store("memory")
def test_real_things_take_their_real_time() -> None:
    """A thread, a program and a socket answer after a while; no time limit strikes before they do."""
    app = hf.App()

    @app.tool(timeout="1s")
    def in_thread() -> str:
        threading.Event().wait(0.05)
        return "thread"

    @app.tool(timeout="10s")
    async def in_program() -> str:
        program = await asyncio.create_subprocess_exec("echo", "program", stdout=asyncio.subprocess.PIPE)
        return (await program.communicate())[0].decode().strip()

    @app.tool(timeout="1s")
    async def by_socket(port: int) -> str:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"socket\n")
        said = await reader.readline()
        writer.close()
        await writer.wait_closed()
        return said.decode().strip()

    @app.agent
    async def real(port: int) -> list[str]:
        return [await in_thread(), await in_program(), await by_socket(port)]

    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), Slow) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        survival = survives_crashes(
            real,
            server.server_address[1],
            compare=lambda said: said == ["thread", "program", "SOCKET"] or said,
        )
        server.shutdown()
    assert len(survival.points) > 20


@pytest.mark.store("memory")
@pytest.mark.timeout(30)
def test_other_things_take_none() -> None:
    """A minute in each of the runs, and none of them lasts one."""
    app = hf.App()

    @app.tool(timeout="1h")
    async def rests() -> str:
        await asyncio.sleep(60)
        return "rested"

    @app.agent
    async def rested() -> str:
        return await rests()

    assert survives_crashes(rested).survived


# ── wrong ones ────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.store("memory")
def test_an_effect_in_the_agents_own_code(world: World) -> None:
    assert message(world, "own_code").splitlines() == [
        "own_code did not survive 10 of 13 crash points",
        "",
        "the outside world differs: 2 × 'mail to Ada' instead of 1",
        "  killed at before_intent · file",
        "  killed at journal.append_many:before · tool_called file",
        "  killed at journal.append_many:after · tool_called file",
        "  killed at after_intent_before_call · file",
        "  killed at after_tool_success_before_receipt · file",
        "  killed at after_tool_success_before_ledger_commit · file",
        "  and at 4 more",
        (
            "  → No tool ran twice there, so the agent's own code did it. That code runs again whenever the job is"
            " resumed: move what it does into a tool."
        ),
    ]


@pytest.mark.store("memory")
def test_an_idempotent_tool_that_ignores_its_key(world: World) -> None:
    assert message(world, "no_key").splitlines() == [
        "no_key did not survive 3 of 13 crash points",
        "",
        "the outside world differs: 2 × 'charged 100' instead of 1",
        "  killed at after_tool_success_before_receipt · charge",
        "  killed at after_tool_success_before_ledger_commit · charge",
        "  killed at journal.append_many:before#2 · tool_returned charge",
        "  → charge is declared idempotent, ran again there under the same key, and did it again: hand the key on.",
    ]


@pytest.mark.store("memory")
def test_a_read_that_sends(world: World) -> None:
    assert message(world, "no_read").splitlines() == [
        "no_read did not survive 2 of 13 crash points",
        "",
        "the outside world differs: 2 × 'greeting to Ada' instead of 1",
        "  killed at before_intent · file",
        "  killed at journal.append_many:before · step_finished greet, tool_called file",
        "  → greet is declared read_only and ran again there: what does something is not read_only.",
    ]


@pytest.mark.store("memory")
def test_a_probe_that_finds_nothing(world: World) -> None:
    """No witness is needed for this one: the kit counts the calls itself."""
    assert message(world, "bad_probe", effects=None).splitlines() == [
        "bad_probe did not survive 3 of 13 crash points",
        "",
        "book(room='Ada') happened 2 times instead of 1",
        "  killed at after_tool_success_before_receipt · book",
        "  killed at after_tool_success_before_ledger_commit · book",
        "  killed at journal.append_many:before#2 · tool_returned book",
        "  → book is verifiable: its probe did not find the first one.",
    ]


@pytest.mark.store("memory")
def test_code_that_goes_another_way(world: World) -> None:
    said = message(world, "tosses", effects=None).splitlines()
    assert said[0] == "tosses did not survive 10 of 13 crash points"
    assert said[-9:] == [
        "the code went another way: charge is on record, and it asked for file(name='Ada') instead",
        "  killed at journal.append_many:after · tool_called charge",
        "  killed at after_intent_before_call · charge",
        "  killed at after_tool_success_before_receipt · charge",
        "  killed at after_tool_success_before_ledger_commit · charge",
        "  killed at journal.append_many:before#2 · tool_returned charge",
        "  killed at journal.append_many:after#2 · tool_returned charge",
        "  and at 2 more",
        (
            "  → An agent's code must go the same way again: take chance and time from hf.random() and hf.now(), and"
            " put everything else that may change into a tool."
        ),
    ]


@pytest.mark.store("memory")
def test_a_result_that_does_not_follow_from_the_record(world: World) -> None:
    assert message(world, "forgets").splitlines() == [
        "forgets did not survive 2 of 13 crash points",
        "",
        "it returned 'filed Ada, the 2st time' instead of 'filed Ada, the 1st time'",
        "  killed at after_ledger_mark_succeeded · file",
        "  killed at journal.append_many:before#3 · job_completed",
        (
            "  → A result must follow from what is recorded. If a part of it may differ, say with compare=… what must"
            " be the same."
        ),
    ]
    agent = wrong_agents(world)["forgets"]
    assert killed(world, agent, compare=lambda said: said.partition(",")[0]).survived


@pytest.mark.store("memory")
def test_a_world_that_is_not_put_back(world: World) -> None:
    assert message(world, "own_code", reset=None).splitlines() == [
        "undisturbed, own_code does not come out the same twice",
        "",
        "the outside world differs: 2 × 'mail to Ada' instead of 1",
        (
            "  → Nobody was killed yet. Put its world back with reset=…, take chance and time from hf.random() and"
            " hf.now(), or say with compare=… what of the result must be the same."
        ),
    ]


@pytest.mark.store("memory")
def test_a_signal_that_nobody_sends(world: World) -> None:
    with pytest.raises(DidNotSurvive) as caught:
        killed(world, right_agents(world)["waits"], signals={})
    assert str(caught.value).splitlines() == [
        "undisturbed, waits does not come to its end",
        "",
        "it waits for a signal that nobody sends",
        '  → Give the signals: signals={"paid:42": {"cents": 100}}.',
    ]


@pytest.mark.store("memory")
@pytest.mark.parametrize(
    "does, said",
    [("raise", "it failed: ValueError: no"), ("wait", "it waits for a signal that nobody sends")],
)
def test_a_child_that_goes_no_further(does: str, said: str) -> None:
    """It is the child that is told of, not the parent that waits for it."""
    app = hf.App()

    @app.agent
    async def child() -> None:
        if does == "raise":
            raise ValueError("no")
        await hf.wait("paid")

    @app.agent
    async def parent() -> None:
        await hf.spawn(child)

    with pytest.raises(DidNotSurvive) as caught:
        survives_crashes(parent)
    assert str(caught.value).splitlines()[:3] == ["undisturbed, parent does not come to its end", "", said]


@pytest.mark.store("memory")
def test_an_agent_that_is_denied_fails_undisturbed(world: World) -> None:
    with pytest.raises(DidNotSurvive) as caught:
        killed(world, right_agents(world)["asks"], approve="no")
    assert "it failed: Denied: refund was denied by holdfast.testing" in str(caught.value)


def test_what_is_no_agent() -> None:
    not_an_agent: Any = len
    with pytest.raises(InvalidSetting):
        survives_crashes(not_an_agent, "Ada")


@pytest.mark.store("memory")
def test_without_a_witness_own_code_is_not_seen(world: World) -> None:
    """The kit says what it can see: calls. Who wants more gives `effects`."""
    assert killed(world, wrong_agents(world)["own_code"], effects=None).survived


# ── an engine that is wrong ───────────────────────────────────────────────────────────────────────


BUGS: dict[str, tuple[str, str]] = {
    "an_unsafe_call_is_sent_again": ("mails", "send(to='Ada') happened 2 times instead of 1"),
    "everything_has_a_key": ("mails", "send(to='Ada') happened 2 times instead of 1"),
    "the_intent_is_not_waited_for": ("mails", "send(to='Ada') happened 2 times instead of 1"),
    "each_attempt_has_its_own_key": ("pays", "pay(cents=100) happened 3 times instead of 2"),
}


@pytest.mark.store("memory")
@pytest.mark.parametrize("bug", BUGS)
def test_a_planted_bug_of_the_engine_is_noticed(
    bug: str, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The agent is right, and the engine is not."""
    name, fault = BUGS[bug]
    plant: Callable[[pytest.MonkeyPatch], None] = MUSEUM[bug]
    plant(monkeypatch)
    with pytest.raises(DidNotSurvive) as caught:
        killed(world, right_agents(world)[name], effects=None)
    assert fault in str(caught.value)


@pytest.mark.store("memory")
def test_never_killed(world: World) -> None:
    """The quick half: it comes to its end, and comes out the same twice."""
    survival = killed(world, right_agents(world)["mails"], kill="never")
    assert str(survival) == "mails came out the same twice; nobody killed it"
    assert message(world, "own_code", kill="never", reset=None).startswith(
        "undisturbed, own_code does not come"
    )


def test_public_names() -> None:
    """What a reader of the page imports is there, and nothing is loaded before it is asked for."""
    assert hf.testing.survives_crashes is survives_crashes
    with pytest.raises(AttributeError):
        _ = hf.testing.survives_everything
