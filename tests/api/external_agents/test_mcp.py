"""`holdfast mcp`, spoken to by a real MCP client over stdin and stdout."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import jsonschema_rs
import pytest
from mcp.client.client import Client
from mcp.client.stdio import StdioServerParameters, stdio_client

from holdfast.client import RemoteClient
from holdfast.client.local_token import find_token
from tests.api.client.job_states import lives
from tests.api.external_agents.place import ended, facts, place, until
from tests.api.server.served import served
from tests.support.fixtures.stores import SqliteBackend
from tests.support.project import ROOT

pytestmark = pytest.mark.store("sqlite")


class Model:
    """What a model sees of the server."""

    def __init__(self, client: Client) -> None:
        self.client = client
        self.called: set[str] = set()

    async def ask(self, name: str, **arguments: Any) -> Any:
        self.called.add(name)
        answer = await self.client.call_tool(name, arguments)
        assert not answer.is_error, answer
        return json.loads(self._text(answer))

    async def refused(self, code: str, name: str, **arguments: Any) -> dict[str, Any]:
        """The problem that this call gets: a code, what happened, what to do, and nothing of our insides."""
        answer = await self.client.call_tool(name, arguments)
        text = self._text(answer)
        assert answer.is_error, text
        problem: dict[str, Any] = json.loads(text)
        assert problem["code"] == code, problem
        assert problem["detail"]
        assert problem["hint"]
        assert "Traceback" not in text
        return problem

    def _text(self, answer: Any) -> str:
        (content,) = answer.content
        return str(content.text)


@asynccontextmanager
async def model(folder: Path, **environment: str) -> AsyncIterator[Model]:
    """A session with `holdfast mcp`, in a process of its own."""
    program = StdioServerParameters(
        command=sys.executable,
        args=["-m", "holdfast", "mcp"],
        env={**os.environ, "PYTHONPATH": str(ROOT / "src"), **environment},
        cwd=folder,
    )
    with (folder / "mcp.log").open("a") as log:
        async with Client(stdio_client(program, errlog=log)) as client:
            yield Model(client)


def at(client: RemoteClient) -> dict[str, str]:
    return {"HOLDFAST_API_URL": client._url, "HOLDFAST_API_KEY": find_token(client._url) or ""}


async def test_every_tool_does_what_it_says(volatile_folder: Path) -> None:
    async with place(volatile_folder) as client, model(volatile_folder, **at(client)) as one:
        tools = {tool.name: tool for tool in (await one.client.list_tools()).tools}
        for tool in tools.values():
            assert len(tool.description or "") > 40, tool.name
            jsonschema_rs.meta.validate(tool.input_schema)
            assert tool.input_schema["type"] == "object"

        me = await one.ask(
            "register_agent", handle="reviewer", capabilities=["review"], max_concurrent_tasks=3
        )
        assert (await one.ask("heartbeat", status="busy"))["status"] == "busy"
        (found,) = (await one.ask("discover_agents", capability="review"))["agents"]
        assert (found["guid"], found["status"]) == (me["guid"], "busy")

        sent = await one.ask("submit_work", description="Read this.", capability="review", priority="7")
        assert (await one.ask("list_work", status="pending"))["items"][0]["id"] == sent["id"]
        (claimed,) = (await one.ask("claim_work"))["items"]
        assert (claimed["id"], claimed["description"]) == (sent["id"], "Read this.")
        assert (await one.ask("renew_work", work_id=sent["id"]))["leaseExpiresAt"] >= claimed[
            "leaseExpiresAt"
        ]
        await one.ask("report_progress", work_id=sent["id"], progress=30, note="reading")
        seen = await one.ask("get_work", work_id=sent["id"], from_character=5)
        assert (seen["status"], seen["progress"], seen["description"]) == ("in-progress", 30, "this.")
        await one.ask("complete_work", work_id=sent["id"], result={"summary": "fine"})
        assert (await one.ask("get_job", job_id=sent["id"]))["status"] == "completed"
        assert (await one.ask("get_trace", job_id=sent["id"]))["over"]

        await _dead_letters(one)
        cancelled = await one.ask("submit_work", description="Not this.", capability="review")
        assert (await one.ask("cancel_work", work_id=cancelled["id"], why="no"))["status"] == "cancelled"
        assert (await one.ask("stats"))["totals"]["completedWork"] == 1
        assert await one.ask("list_waiting") == {"items": [], "more": 0}
        assert one.called | {"approve", "deny"} == set(tools), "and those below"
        assert (await ended(client, sent["id"])).result == {"summary": "fine"}
        assert (await facts(client, sent["id"]))["job_completed"] == 1


async def _dead_letters(one: Model) -> None:
    """One that is requeued and one that is discarded; each failed as often as it may."""
    sent = [await one.ask("submit_work", description=f"{n}", capability="review") for n in range(2)]
    left = {work["id"] for work in sent}
    while left:
        for work in (await one.ask("claim_work", limit=2, wait_seconds=20))["items"]:
            failed = await one.ask("fail_work", work_id=work["id"], message="no such page")
            if failed["status"] == "dead-letter":
                left.discard(work["id"])
    dead = await one.ask("list_dead_letters")
    assert {letter["job_id"] for letter in dead["items"]} == {work["id"] for work in sent}
    assert "no such page" in json.dumps(dead)
    await one.ask("requeue_dead_letter", job_id=sent[0]["id"], why="the page is back")
    await one.ask("discard_dead_letter", job_id=sent[1]["id"], why="nobody wants it")
    (again,) = (await one.ask("claim_work", wait_seconds=20))["items"]
    assert again["id"] == sent[0]["id"]
    final = await one.ask("fail_work", work_id=again["id"], message="for good", recoverable=False)
    assert final["status"] == "failed"


@pytest.mark.parametrize("word", ["approve", "deny"])
async def test_a_person_decides_through_the_model(volatile_folder: Path, word: str) -> None:
    backend = SqliteBackend(volatile_folder)
    async with lives(backend) as one, served(one.store, backend.clock) as url, RemoteClient(url) as client:
        job_id = await one.asking()
        async with model(volatile_folder, **at(client)) as speaker:
            (need,) = (await speaker.ask("list_waiting"))["items"]
            assert (need["job_id"], need["approval_id"]) == (job_id, "apr_1")
            said = await speaker.ask(word, approval_id="apr_1", by="ada", why="I have read it")
            assert said["job_id"] == job_id
            await speaker.refused("not_found", word, approval_id="apr_none", by="ada")
        (letter,) = await one.store.post.read(job_id)
        assert (letter.sender, letter.body["why"]) == ("ada", "I have read it")
        assert {"approve": "approved", "deny": "denied"}[word] in letter.body.values()


async def test_errors_say_what_to_do(volatile_folder: Path) -> None:
    async with place(volatile_folder) as client, model(volatile_folder, **at(client)) as one:
        await one.refused("not_found", "no_such_tool")
        assert "register_agent" in (await one.refused("invalid_move", "claim_work"))["hint"]
        await one.refused("invalid_move", "complete_work", work_id="job_none")
        await one.refused("not_found", "get_work", work_id="job_none")
        assert (
            "priority"
            in (
                await one.refused(
                    "invalid_payload", "submit_work", description="x", capability="y", priority=11
                )
            )["detail"]
        )
        await one.refused("invalid_payload", "submit_work", description="x", capability="y", colour="red")
        await one.refused("invalid_payload", "submit_work", description="x", capability="a@b")
        await one.ask("register_agent", handle="reviewer", capabilities=["review"])
        sent = await one.ask("submit_work", description="x", capability="review")
        await one.ask("claim_work")
        await client.cancel_work(sent["id"])
        await one.refused("fenced", "complete_work", work_id=sent["id"], result="late")


async def test_long_answers_are_cut_and_say_so(volatile_folder: Path) -> None:
    async with place(volatile_folder) as client, model(volatile_folder, **at(client)) as one:
        long = "".join(f"{n:05} " for n in range(16_000))
        sent = await client.submit_work(long, "review", context_data=["y" * 300] * 500)
        seen = await one.ask("get_work", work_id=sent.id)
        assert len(json.dumps(seen)) < 70_000
        shown, _, missing = seen["description"].partition("…")
        assert long.startswith(shown)
        assert "more characters" in missing
        assert "more" in seen["contextData"][-1]
        rest = await one.ask("get_work", work_id=sent.id, from_character=len(long) - 100)
        assert rest["description"] == long[-100:]


async def test_a_claim_is_kept_while_the_session_lives_and_given_back_at_its_end(
    volatile_folder: Path,
) -> None:
    """Goal: a model may think longer than a lease. Method: a rival waits for the work, for more than two leases; then
    the session ends and the rival has it at once."""
    async with place(volatile_folder) as client:
        rival = await client.register_agent("rival", "test", capabilities=["review"])
        sent = await client.submit_work("Think.", "review")
        async with model(volatile_folder, **at(client)) as one:
            await one.ask("register_agent", handle="thinker", capabilities=["review"])
            await one.ask("claim_work", lease_seconds=3)
            assert await client.claim_work(rival.guid, wait_seconds=7) == ()
            await one.ask("report_progress", work_id=sent.id, progress=10)
        back = await until(client, sent.id, lambda work: work.status == "pending")
        assert back.attempts == 0
        (claimed,) = await client.claim_work(rival.guid)
        assert claimed.id == sent.id


async def test_without_a_server_it_works_on_a_store(volatile_folder: Path) -> None:
    environment = {"HOLDFAST_API_URL": "", "HOLDFAST_STORE": f"sqlite:///{volatile_folder / 'own.db'}"}
    async with model(volatile_folder, **environment) as one:
        await one.ask("register_agent", handle="reviewer", capabilities=["review"])
        sent = await one.ask("submit_work", description="Read.", capability="review", task_id="t1")
        again = await one.ask("submit_work", description="Read.", capability="review", task_id="t1")
        assert again["id"] == sent["id"]
        await one.ask("claim_work")
        assert (await one.ask("complete_work", work_id=sent["id"], result=1))["status"] == "completed"


def test_without_the_extra_it_says_which_command_installs_it(tmp_path: Path) -> None:
    (tmp_path / "mcp.py").write_text("raise ImportError('not installed')\n")
    done = subprocess.run(
        [sys.executable, "-m", "holdfast", "mcp"],
        env={**os.environ, "PYTHONPATH": f"{tmp_path}{os.pathsep}{ROOT / 'src'}"},
        cwd=tmp_path,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (done.returncode, done.stdout) == (2, "")
    assert "pip install 'holdfast[mcp]'" in done.stderr
    assert "Traceback" not in done.stderr
