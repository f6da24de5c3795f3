"""S9, I35: fifty planted secrets go in through every door, and none is found in any table, log, file or export."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx2
import pytest
from click.testing import CliRunner

import holdfast as hf
from holdfast.agents.configured_agents import session_with
from holdfast.agents.toolbox import http_tools, shell_tool
from holdfast.cli.root import holdfast
from holdfast.client.in_process import EmbeddedClient
from holdfast.engine.verify.verify import verify
from holdfast.errors import HoldfastError, InvalidName, JobHeld
from holdfast.model import redaction
from holdfast.model.configured_agents import Configuration, HostedAgent
from holdfast.model.ids import RandomIds
from holdfast.model.jobs import JobFilter
from holdfast.runtime.process import Process
from holdfast.store.clock import SystemClock
from holdfast.store.tables.store import SqlStore
from tests.agents.waiting import waits_for
from tests.agents.web import serving
from tests.api.server.api import as_owner
from tests.api.server.served import served
from tests.security import canaries

TEXT = " | ".join(canaries.ALL)
SCRIPT = """
[[reply]]
when = "again"
text = "I remember {said}"

[[reply]]
after = "leak"
text = "The tool said {result}"

[[reply]]
calls = [{ tool = "leak", args = { given = CANARIES } }]
"""


@pytest.fixture(
    params=[
        pytest.param("sqlite", marks=pytest.mark.store("sqlite")),
        pytest.param("postgres", marks=pytest.mark.store("postgres")),
    ]
)
def where(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "postgres":
        url: str = request.getfixturevalue("postgres_database")
        return url
    return f"sqlite:///{tmp_path / 'store' / 'canaries.db'}"


@pytest.fixture(autouse=True)
def planted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Half of the known ones are in the environment, the others are files."""
    (tmp_path / "store").mkdir()
    folder = tmp_path / "secrets"
    folder.mkdir()
    monkeypatch.setenv("HOLDFAST_SECRETS_DIR", str(folder))
    for nth, (name, value) in enumerate(canaries.KNOWN.items()):
        if nth % 2:
            (folder / name).write_text(value, encoding="utf-8")
        else:
            monkeypatch.setenv(f"HOLDFAST_SECRET_{name.upper().replace('-', '_')}", value)


def app_of(where: str, tmp_path: Path, port: int) -> hf.App:
    """Agents that do everything one should not do with a secret."""
    app = hf.App(store=where)
    script = tmp_path / "script.toml"
    script.write_text(SCRIPT.replace("CANARIES", json.dumps(TEXT, ensure_ascii=False)), encoding="utf-8")
    llm = hf.llm(f"scripted:{script}")
    headers = {"Authorization": f"Bearer {hf.secret('plain-1')}", "Cookie": "id=opaque"}
    web, *_ = http_tools(allow=[f"127.0.0.1:{port}"], headers=headers)
    shell = shell_tool(tmp_path, effect="read_only", env={"TOKEN": hf.secret("plain-2")})

    @app.tool(effect="read_only")
    async def leak(given: str) -> dict[str, Any]:
        """Say what you were given."""
        return {"said": given, given: [given], "headers": {"Authorization": "opaque", "set-cookie": given}}

    @app.tool(effect="unsafe")
    async def act(given: str, nested: Any) -> str:
        hf.emit(f"acting on {given}")
        await hf.emit({"chunk": canaries.ALL}, stream="progress")
        return f"done with {given}"

    @app.tool(effect="read_only")
    async def fail(given: str) -> None:
        raise ValueError(f"cannot: {given}", given)

    @app.agent
    async def careless(given: Any) -> Any:
        assert canaries.found_in(json.dumps(given, ensure_ascii=False)) == set(), (
            "an input is what is stored of it"
        )
        text = TEXT  # what code gets its hands on in other ways: files, the environment, its receivers
        reply = await llm.ask([hf.user(text)], tools=[leak])
        results = await hf.run_tools(reply, [leak])
        last = await llm.ask([hf.user(text), reply.message, results], tools=[leak])
        await act(text, {"deep": [{"deeper": canaries.ALL}]})
        await web(f"http://127.0.0.1:{port}/?q={hf.secret('plain-1').reveal()}")
        printed = await shell("printf '%s' \"$TOKEN\"; env")
        caught = ""
        try:
            await fail(text)
        except ValueError as error:
            caught = str(error)
        signal = await hf.wait("word")
        logging.getLogger("holdfast.careless").warning("noted %s", text)
        return {
            "text": text,
            "reply": last.text,
            "printed": printed.stdout,
            "caught": caught,
            "signal": signal,
        }

    @app.agent
    async def hopeless(given: str) -> None:
        raise RuntimeError(f"{given} {TEXT}")

    return app


@asynccontextmanager
async def client_of(process: Process) -> AsyncIterator[EmbeddedClient]:
    yield EmbeddedClient(process.store, SystemClock(), RandomIds())


async def through_jobs(app: hf.App, process: Process) -> None:
    """Input, arguments, results, errors, prompts, answers, streams, checkpoints, signals, words, output."""
    given = {"text": TEXT, "all": canaries.ALL, "keyed": dict.fromkeys(canaries.ALL, 1)}
    careless, hopeless = app.callees["careless"], app.callees["hopeless"]
    assert isinstance(careless, hf.Agent)
    assert isinstance(hopeless, hf.Agent)
    job = await careless.start(given, id="careless")
    heard = asyncio.ensure_future(_heard(job))
    await waits_for(process, "careless", "signal")
    await job.signal("word", {"by": TEXT, "list": canaries.ALL})
    output = await job.result()
    assert "[redacted:plain_1]" in json.dumps(output)
    assert canaries.found_in(json.dumps(output, ensure_ascii=False)) == set()
    assert canaries.found_in(await heard) == set()
    failing = await hopeless.start(TEXT, id="hopeless")
    with pytest.raises(JobHeld) as held:
        await failing.result()
    assert canaries.found_in(str(held.value)) == set()
    async with client_of(process) as client:
        for nth, canary in enumerate(canaries.ALL):
            await client.submit("nobody", {"input": canary}, job_id=f"waits-{nth}", queue="none")
            await client.signal(f"waits-{nth}", "word", {"body": canary}, by="ada", operation_id=f"s{nth}")
            await client.cancel(f"waits-{nth}", why=f"because {canary}", by="ada", operation_id=f"c{nth}")


async def _heard(job: Any) -> str:
    return "".join([repr(chunk) async for chunk in job.stream()])


async def through_sessions(process: Process, tmp_path: Path) -> None:
    """Configuration, messages, answers, files and their names."""
    told = Configuration(instructions=TEXT, model=f"scripted:{tmp_path / 'script.toml'}", tools=("leak",))
    agent = await process.store.agents.create(HostedAgent(agent_id="agent_a", name="a", configuration=told))

    async def host() -> Process:
        return process

    session = session_with(agent, "talk", host)
    file = await session.attach(f"a file with {TEXT}".encode(), media_type="text/plain")
    said = await session.send([{**file, "name": TEXT}, {"type": "text", "text": TEXT}])
    assert "[redacted:plain_1]" in said
    assert canaries.found_in(said) == set()
    assert canaries.found_in(await session.send(f"again {TEXT}")) == set()
    for name in canaries.as_names():
        with pytest.raises(InvalidName):
            session_with(agent, name, host)


async def through_http(process: Process) -> str:
    """Bodies, paths, and the headers in which names come; the answer is everything that can be taken away."""
    async with (
        served(process.store, SystemClock()) as url,
        httpx2.AsyncClient(base_url=url, headers=as_owner(url), timeout=60, trust_env=False) as http,
    ):
        made = await http.post(
            "/api/jobs",
            json={"kind": "nobody", "id": "posted", "input": {"x": canaries.ALL}, "queue": "none"},
        )
        assert made.status_code in {200, 201, 202}, made.text
        for name in canaries.as_names():
            for headers, more in (
                ({"idempotency-key": name}, {}),
                ({}, {"id": name}),
                ({}, {"session_id": name}),
            ):
                if headers and not name.isascii():
                    continue
                refused = await http.post(
                    "/api/jobs",
                    json={"kind": "nobody", "input": None, "queue": "none", **more},
                    headers=headers,
                )
                assert 400 <= refused.status_code < 500, (name, refused.text)
                assert canaries.found_in(refused.text) == set(), refused.text
        paths = ["/api/jobs/careless", "/api/jobs/careless/export", "/api/jobs/careless/events", "/metrics"]
        paths += ["/api/jobs/careless/trace", "/api/jobs/hopeless", "/api/sessions/talk", "/health"]
        return "".join([(await http.get(path)).text for path in paths])


def through_commands(where: str) -> str:
    """Arguments of commands, and what they print."""
    lines = [
        ["signal", "posted", "word", "--body", json.dumps({"said": TEXT}), "--store", where],
        ["cancel", "posted", "--why", TEXT[:3000], "--store", where],
        *(["trace", job, "--store", where] for job in ("careless", "hopeless")),
        *(["job", job, "--json", "--store", where] for job in ("careless", "hopeless")),
        *(["job", name, "--store", where] for name in list(canaries.as_names())[:5]),
    ]
    printed = []
    for line in lines:
        done = CliRunner().invoke(holdfast, line)
        printed.append(
            done.output + (repr(done.exception) if isinstance(done.exception, HoldfastError) else "")
        )
    assert "careless" in "".join(printed)
    return "".join(printed)


async def found_anywhere(where: str, tmp_path: Path) -> dict[str, set[str]]:
    if where.startswith("postgres"):
        return await canaries.in_postgres(where)
    return canaries.in_sqlite(tmp_path / "store" / "canaries.db")


async def planted_through_every_door(where: str, tmp_path: Path) -> tuple[dict[str, set[str]], str]:
    """Where canaries were found in the store, and all that was printed, answered and exported."""
    with serving() as web:
        app = app_of(where, tmp_path, web.port)
        async with app.running() as process:
            await through_jobs(app, process)
            await through_sessions(process, tmp_path)
            shown = await through_http(process)
            shown += await asyncio.to_thread(through_commands, where)
            found = await found_anywhere(where, tmp_path)
            assert len(await process.store.jobs.list(JobFilter(), limit=100)) > 50
            assert isinstance(process.store, SqlStore)
            assert (await verify(process.store)).clean
        asked = [headers.get("authorization") for _, _, headers, _ in web.asked]
        assert asked == [f"Bearer {canaries.KNOWN['plain-1']}"], "the receiver gets the secret itself"
    return found, shown


async def test_none_of_fifty_is_found(where: str, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG, "holdfast")
    found, shown = await planted_through_every_door(where, tmp_path)
    assert found == {}
    assert canaries.found_in(shown) == set()
    assert "noted" in caplog.text
    assert canaries.found_in(caplog.text) == set()


@pytest.mark.store("sqlite")
async def test_the_search_finds_what_is_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without redaction the same search finds all fifty."""
    monkeypatch.setenv("HOLDFAST_REDACT", "none")
    app = hf.App(store=f"sqlite:///{tmp_path / 'store' / 'canaries.db'}")

    @app.agent
    async def echo(given: Any) -> Any:
        return given

    async with app.running():
        assert redaction.get_redactor().shapes == ()
        await echo(canaries.ALL)
        found = canaries.in_sqlite(tmp_path / "store" / "canaries.db")
    assert found["events"] == set(canaries.ALL)
    assert found["canaries.db-wal"] == set(canaries.ALL)
