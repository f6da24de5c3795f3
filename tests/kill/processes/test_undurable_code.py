"""Goal: what an agent's own code does to the outside world is noticed, and so is what makes a request differ. Method:
an application under `holdfast worker`, whose log is read; a receiver and a provider with logs of their own."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path

import pytest

from holdfast.model.states import WaitReason
from tests.kill.processes.provider import Provider
from tests.kill.processes.receiver import Receiver
from tests.kill.processes.stage import KILL, PATIENCE_S, Child, Stage
from tests.support.project import ROOT

pytestmark = pytest.mark.timeout(180)

APP = ROOT / "tests/kill/processes/undurable_app.py"
LINES = APP.read_text(encoding="utf-8").splitlines()
TOOL = "Put it in a tool: @hf.tool(effect=…)"
NOTICE = "from the agent's own code"


def line_of(mark: str) -> int:
    """The number of the line of the application that ends with this mark."""
    (number,) = [number for number, line in enumerate(LINES, 1) if line.endswith(f"# {mark}")]
    return number


@pytest.fixture(autouse=True)
def application(stage: Stage, provider: Provider) -> None:
    stage.environment["PROVIDER"] = provider.url
    (stage.folder / "fresh_module.py").write_text("NAME = 'fresh'\n", encoding="utf-8")
    stage.environment["PYTHONDONTWRITEBYTECODE"] = ""


def notices(child: Child) -> list[str]:
    return [line for line in child.log.splitlines() if NOTICE in line]


async def until_dead_letter(stage: Stage, job_id: str = "job") -> None:
    async with asyncio.timeout(PATIENCE_S):
        while (await stage.job(job_id)).wait_reason is not WaitReason.DEAD_LETTER:  # noqa: ASYNC110 - another process does it
            await asyncio.sleep(0.05)


@pytest.mark.parametrize(
    "kind, what, mark, function",
    [
        ("connects", "connects to ", "SOCKET", "tell"),
        ("connects_in_a_thread", "connects to ", "THREAD SOCKET", "tell_blocking"),
        ("asks_bare", "connects to ", "BARE CLIENT", "asks_bare"),
        ("writes", "opens item.txt for writing", "FILE", "write"),
        ("calls_framework", "opens item.txt for writing", "FILE", "write"),
        ("runs", "starts the process /bin/true", "PROCESS", "runs"),
        ("keeps", "opens the database item.db", "DATABASE", "keeps"),
    ],
)
async def test_the_outside_world_from_job_code_is_noticed(
    stage: Stage, kind: str, what: str, mark: str, function: str
) -> None:
    """Once for a place, with the author's line and the remedy; the job is not hindered."""
    worker = await stage.worker(APP)
    await stage.submit(kind, "first", item="item")
    await stage.submit(kind, "second", item="item")
    await stage.completed("first")
    await stage.completed("second")
    (notice,) = notices(worker)
    assert what in notice
    place = f"at {APP}:" if mark == "BARE CLIENT" else f"at {APP}:{line_of(mark)} in {function}. "
    assert place in notice
    assert TOOL in notice
    assert ("hf.wrap(client)" in notice) is (what == "connects to ")


async def test_tools_imports_logging_and_wrapped_clients_are_not_noticed(
    stage: Stage, provider: Provider, receiver: Receiver
) -> None:
    worker = await stage.worker(APP)
    await stage.submit("behaves", item="item")
    assert await stage.completed() == "answer to item"
    assert notices(worker) == []
    assert list(stage.folder.glob("__pycache__/fresh_module*")), "an import has written bytecode"
    assert (stage.folder / "item.log").exists()
    assert (len(provider.log), receiver.count("item")) == (1, 2)


@pytest.mark.parametrize("way", ["app", "environment"])
async def test_on_request_it_is_refused(stage: Stage, receiver: Receiver, way: str) -> None:
    """Nothing is sent, and the job is a dead letter that says where and why."""
    stage.environment["APP_ON_UNDURABLE" if way == "app" else "HOLDFAST_ON_UNDURABLE"] = "error"
    await stage.worker(APP)
    await stage.submit("connects", item="item")
    await stage.submit("connects_in_a_thread", "thread", item="item")
    await until_dead_letter(stage)
    await until_dead_letter(stage, "thread")
    assert receiver.log == []
    shown = re.sub(r"\s+", " ", await stage.holdfast("job", "job"))
    assert f"connects to {receiver.address}, at {APP}:{line_of('SOCKET')} in tell" in shown
    assert len((await stage.job()).error) == 1, "the same code would do it again"


async def test_an_importing_application_is_left_alone_unless_it_asks(stage: Stage) -> None:
    silent = await stage.script("writes", "one", app=APP)
    assert await silent.over() == 0
    assert notices(silent) == []
    stage.environment["APP_ON_UNDURABLE"] = "warn"
    asked = await stage.script("writes", "two", app=APP)
    assert await asked.over() == 0
    assert len(notices(asked)) == 1


async def test_holdfast_run_notices(stage: Stage) -> None:
    spec = stage.folder / "spec.json"
    spec.write_text('{"agent": "writes", "input": {"item": "item"}}', encoding="utf-8")
    child = await stage.command("run", "--job", str(spec), "--app", str(APP))
    assert await child.over() == 0
    assert len(notices(child)) == 1


async def test_a_wrong_setting_is_refused(stage: Stage) -> None:
    stage.environment["HOLDFAST_ON_UNDURABLE"] = "loudly"
    said = await stage.refused("worker", str(APP))
    assert "HOLDFAST_ON_UNDURABLE='loudly' is not known" in said
    assert "'ignore', 'warn', 'error'" in said


@pytest.mark.parametrize("item", ["uuid", "time", "random"])
async def test_a_request_that_differs_in_every_run_is_named_with_its_field(
    stage: Stage, provider: Provider, receiver: Receiver, item: str
) -> None:
    receiver.hold(item)
    first = await stage.worker(APP)
    await stage.submit("buys_again", item=item)
    await receiver.until_arrived(item)
    await stage.until_recorded("llm_responded", 1)
    await first.end(KILL)
    await receiver.release()
    second = await stage.worker(APP)
    await stage.completed()
    assert len(provider.log) == 2
    await second.wait_for_log(r"buys a recorded answer again: .* differs in messages\[0\]\.content")
    assert "hf.now, hf.uuid" in second.log
    trace = re.sub(r"\s+", " ", await stage.holdfast("trace", "job"))
    assert "differs in messages[0].content" in trace


@pytest.mark.parametrize(
    "kind, said",
    [
        ("asks_in_a_thread", "a wrapped model client is used in another event loop by an agent's own code"),
        ("asks_blocking", "a blocking model client in an agent's own code"),
    ],
)
async def test_a_wrapped_client_in_the_wrong_place_says_so(
    stage: Stage, provider: Provider, kind: str, said: str
) -> None:
    await stage.worker(APP)
    await stage.submit(kind, item="item")
    await until_dead_letter(stage)
    shown = re.sub(r"\s+", " ", await stage.holdfast("job", "job"))
    assert said in shown
    assert "Connection error" not in shown
    assert provider.log == []


# ── what an App declares ──────────────────────────────────────────────────────────────────────────

STORES = """
import os
import holdfast as hf

app = hf.App(store=os.environ["DECLARED"], on_undurable="ignore")


@app.agent
async def greets(name: str) -> str:
    return f"hello {name}"
"""


@pytest.fixture
def declaring(stage: Stage, where: str) -> Path:
    """An application that declares the store of the stage, which the environment does not name."""
    path = stage.folder / "declaring.py"
    path.write_text(STORES, encoding="utf-8")
    stage.environment |= {"DECLARED": where, "HOLDFAST_STORE": ""}
    return path


@pytest.mark.parametrize("way", ["worker", "up"])
async def test_the_store_that_an_app_declares_is_worked_on(stage: Stage, declaring: Path, way: str) -> None:
    if way == "worker":
        await stage.worker(declaring)
    else:
        supervisor = await stage.command("up", str(declaring), "--port", "0")
        await supervisor.wait_for_log("Holdfast is up")
    await stage.submit("greets", name="Ada")
    assert await stage.completed() == "hello Ada"
    assert not (stage.folder / "holdfast.db").exists()


async def test_holdfast_run_uses_the_store_that_an_app_declares(stage: Stage, declaring: Path) -> None:
    spec = stage.folder / "spec.json"
    spec.write_text('{"agent": "greets", "input": {"name": "Ada"}, "id": "job"}', encoding="utf-8")
    child = await stage.command("run", "--job", str(spec), "--app", str(declaring))
    assert await child.over() == 0
    assert await stage.completed() == "hello Ada"
    assert not (stage.folder / "holdfast.db").exists()


@pytest.mark.parametrize("way", ["--store", "HOLDFAST_STORE"])
async def test_a_store_that_is_named_counts_before_the_declared_one(
    stage: Stage, declaring: Path, where: str, way: str
) -> None:
    stage.environment["DECLARED"] = f"sqlite:///{stage.folder / 'other.db'}"
    if way == "HOLDFAST_STORE":
        stage.environment["HOLDFAST_STORE"] = where
    worker = await stage.worker(declaring, *(("--store", where) if way == "--store" else ()))
    await stage.submit("greets", name="Ada")
    assert await stage.completed() == "hello Ada"
    assert not (stage.folder / "other.db").exists()
    assert worker.log.count("The App declares another store, which is ignored") == 1
    assert f"{way} is used: " in worker.log
