"""Tools of MCP servers: real server processes over stdio and HTTP, and what they themselves say was done."""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

import holdfast as hf
from holdfast.agents.mcp import McpServer, McpTool, Offer
from holdfast.errors import CallFailed, InvalidPayload, InvalidSetting, Refused
from holdfast.model.side_effects import Effect
from tests.agents.replies import claude, faults, texts
from tests.agents.test_processes import gone
from tests.agents.waiting import waits_for

PROGRAM = Path(__file__).with_name("mcp_server.py")
POLICY = hf.Policy.parse(
    """
    [tools."shop.pay"]
    key_argument = "idempotency_key"
    key_lifetime = "24h"

    [tools."shop.send"]
    key_meta = "example.com/key"
    """
)


class Shop:
    """A server, and its own log of what it did."""

    def __init__(self, log: Path, server: McpServer) -> None:
        self.log = log
        self.server = server

    def lines(self) -> list[list[str]]:
        return [line.split() for line in self.log.read_text().splitlines()] if self.log.exists() else []

    def done(self) -> list[str]:
        return [line[1] for line in self.lines()]

    async def tool(self, name: str) -> McpTool:
        (found,) = [tool for tool in await self.server.tools() if tool.name == f"shop.{name}"]
        return found

    async def begun(self, word: str) -> int:
        """The process that has begun to do this."""
        while word not in self.done():
            await asyncio.to_thread(_nap)
        return next(int(line[0]) for line in self.lines() if line[1] == word)


def _nap() -> None:
    subprocess.run(["sleep", "0.01"], check=True)


@contextmanager
def served(log: Path) -> Iterator[str]:
    """The address of a server that listens."""
    command = [sys.executable, str(PROGRAM), "http", str(log)]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        try:
            assert process.stderr is not None
            found = next(m for line in process.stderr if (m := re.search(r"(http://[\d.:]+)", line)))
            yield f"{found[1]}/mcp"
        finally:
            process.kill()
            process.communicate()


@pytest.fixture(params=["stdio", "http"])
async def shop(request: pytest.FixtureRequest, tmp_path: Path) -> Any:
    log = tmp_path / "done"
    if request.param == "stdio":
        async with hf.mcp("shop", [sys.executable, str(PROGRAM), "stdio", str(log)], policy=POLICY) as server:
            yield Shop(log, server)
    else:
        with served(log) as url:
            async with hf.mcp("shop", url=url, policy=POLICY) as server:
                yield Shop(log, server)


@pytest.fixture
def app(tmp_path: Path) -> hf.App:
    return hf.App(store=f"sqlite:///{tmp_path / 'test.db'}")


async def test_tools_are_called_and_told(shop: Shop) -> None:
    tools = {tool.name: tool for tool in await shop.server.tools()}
    assert await tools["shop.lookup"](what="a") == "A"
    (told,) = hf.schemas(tools["shop.pay"])
    assert told["name"] == "shop_pay"
    assert told["description"].split() == "Pay for an order. At once, and for good.".split(), "all of it"
    schema: Any = told["input_schema"]
    assert sorted(schema["properties"]) == ["cents", "order"], "the key is ours to give"
    assert schema["required"] == ["order", "cents"]
    assert shop.done() == ["lookup"]


async def test_the_class_of_a_tool(shop: Shop) -> None:
    classes = {tool.name: tool.terms.effect for tool in await shop.server.tools()}
    assert classes == {
        "shop.lookup": Effect.READ_ONLY,
        "shop.pay": Effect.IDEMPOTENT,
        "shop.send": Effect.UNSAFE,
        "shop.fail": Effect.UNSAFE,
        "shop.long": Effect.READ_ONLY,
        "shop.block": Effect.UNSAFE,
        "shop.deaf": Effect.UNSAFE,
    }


READS, REPEATS, NEITHER = (
    Offer("t", {}, read_only=read_only, idempotent=idempotent)
    for read_only, idempotent in ((True, False), (False, True), (False, False))
)


@pytest.mark.parametrize(
    "offer, rule, trusted, effect",
    [
        (READS, "", True, "read_only"),
        (READS, "", False, "unsafe"),
        (READS, 'class = "external"', True, "unsafe"),
        (REPEATS, "", True, "unsafe"),
        (REPEATS, 'key_argument = "key"', True, "idempotent"),
        (REPEATS, 'key_meta = "key"', True, "idempotent"),
        (REPEATS, 'key_argument = "key"', False, "unsafe"),
        (NEITHER, 'key_argument = "key"', True, "unsafe"),
        (NEITHER, 'class = "memory"', False, "idempotent"),
        (NEITHER, "", True, "unsafe"),
    ],
)
def test_the_policy_decides_before_the_server(offer: Offer, rule: str, trusted: bool, effect: str) -> None:
    policy = hf.Policy.parse(f'[tools."s.*"]\n{rule}')
    server = hf.mcp("s", ["program"], policy=policy, trust_hints=trusted)
    assert server._tool(offer).terms.effect == effect


# ── in a job ──────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.store("sqlite")
async def test_a_model_calls_them_and_a_job_keeps_them(shop: Shop, app: hf.App) -> None:
    """Called, replayed after a sleep, with the key where the policy says; and the tools are listed once."""
    listed: list[int] = []

    @app.agent
    async def program() -> Any:
        tools = await shop.server.tools()
        listed.append(len(tools))
        asks: list[Any] = [
            ("shop_lookup", {"what": "a"}),
            ("shop_pay", {"order": "o", "cents": 5}),
            ("shop_send", {"to": "ada"}),
            ("shop_fail", {"words": "no room"}),
            ("shop_lookup", {"what": 5}),
            ("shop_lookup", {}),
            ("shop_pay", {"order": "o", "cents": 0}),
            ("shop_lookup", {"what": "\ud800"}),
            ("shop_gone", {}),
        ]
        given = await hf.run_tools(raw(asks), tools)
        await hf.sleep("1ms")
        return given

    async with app.running():
        given = await program()
    assert texts(given)[:3] == ["A", '{"cents":5,"order":"o"}', "sent to ada"]
    assert faults(given)[3:] == ["tool_failed", *["invalid_arguments"] * 4, "unknown_tool"]
    assert "no room" in texts(given)[3]
    assert "is not of type" in texts(given)[4]
    assert sorted(shop.done()) == ["fail", "lookup", "pay", "send"]
    keys = {line[1]: line[3] for line in shop.lines() if line[1] in {"pay", "send"}}
    assert re.fullmatch(r"hf_[0-9a-f]{40}", keys["pay"])
    assert keys["send"] not in {"-", keys["pay"]}
    assert listed == [7, 7]


def raw(asks: list[Any]) -> dict[str, Any]:
    blocks = [{"type": "tool_use", "id": "same", "name": name, "input": given} for name, given in asks]
    return {"role": "assistant", "content": blocks}


@pytest.mark.store("sqlite")
async def test_a_server_that_dies_in_the_middle_leaves_it_uncertain(shop: Shop, app: hf.App) -> None:
    """Goal: an unsafe call is never repeated by itself. Method: the server is killed while it works; the job is held
    for a person."""

    @app.agent
    async def program() -> Any:
        tools = {tool.name: tool for tool in await shop.server.tools()}
        return await tools["shop.block"](mark="x")

    async with app.running() as process:
        job = await program.start()
        os.kill(await shop.begun("block"), signal.SIGKILL)
        await waits_for(process, job.id, "reconcile")
    assert shop.done() == ["block"]


async def test_a_server_that_died_while_nobody_called_is_started_again(tmp_path: Path) -> None:
    log = tmp_path / "done"
    async with hf.mcp("shop", [sys.executable, str(PROGRAM), "stdio", str(log)]) as server:
        shop = Shop(log, server)
        lookup = await shop.tool("lookup")
        await lookup(what="a")
        first = await shop.begun("lookup")
        os.kill(first, signal.SIGKILL)
        assert await gone([first])
        connection = server._connections[asyncio.get_running_loop()]
        await asyncio.wait_for(connection._lost.wait(), 10)
        assert await lookup(what="b") == "B"
    pids = [int(line[0]) for line in shop.lines()]
    assert len(set(pids)) == 2
    assert await gone(pids), "closing the server ends its program"


async def test_a_server_that_has_gone_away_was_sent_nothing(tmp_path: Path) -> None:
    """Over HTTP, between two calls: the second finds nobody, and that is certain."""
    log = tmp_path / "done"
    with served(log) as url:
        server = hf.mcp("shop", url=url)
        send = await Shop(log, server).tool("send")
        assert await send(to="ada") == "sent to ada"
    with pytest.raises(Refused, match="cannot be reached"):
        await send(to="bob")
    await server.close()
    assert Shop(log, server).done() == ["send"]


async def test_a_worker_that_is_killed_takes_its_server_along(tmp_path: Path) -> None:
    """Also a server that does not hear the end of its stdin: this one is busy."""
    log = tmp_path / "done"
    code = f"""
import asyncio, sys, holdfast as hf
async def main():
    server = hf.mcp("shop", [sys.executable, {str(PROGRAM)!r}, "stdio", {str(log)!r}])
    deaf = next(tool for tool in await server.tools() if tool.name == "shop.deaf")
    await deaf()
asyncio.run(main())
"""
    worker = await asyncio.create_subprocess_exec(sys.executable, "-c", code)
    pid = await Shop(log, hf.mcp("x", ["y"])).begun("deaf")
    worker.kill()
    await worker.wait()
    assert await gone([pid])


# ── what goes wrong ───────────────────────────────────────────────────────────────────────────────


async def test_a_failure_of_the_tool_is_an_error_of_the_call(shop: Shop) -> None:
    with pytest.raises(CallFailed, match="no room"):
        await (await shop.tool("fail"))(words="no room")


async def test_arguments_are_checked_before_anything_is_sent(shop: Shop) -> None:
    pay = await shop.tool("pay")
    for wrong in ({"order": "o"}, {"order": "o", "cents": "5"}, {"order": "o", "cents": 0}):
        with pytest.raises(InvalidPayload, match=r"arguments of shop\.pay do not fit"):
            await pay(**wrong)
    with pytest.raises(InvalidPayload, match="takes its arguments by name"):
        await pay("o")
    assert shop.done() == []


async def test_a_tool_that_the_server_does_not_know_did_nothing(shop: Shop) -> None:
    ghost = shop.server._tool(Offer("ghost", {"type": "object"}))
    reply = raw([("shop_ghost", {})])
    (text,) = texts(await hf.run_tools(reply, [ghost]))
    assert json.loads(text)["error"]["type"] == "tool_failed"
    assert shop.done() == []


async def test_a_long_answer_is_cut(shop: Shop) -> None:
    long = await shop.tool("long")
    assert "bytes left out" in await long(size=2_000_000)
    assert len(await long(size=2_000_000)) < 600_000


@pytest.mark.parametrize(
    "server",
    [
        hf.mcp("nothing", ["/no/such/program"]),
        hf.mcp("silent", ["true"]),
        hf.mcp("closed", url="http://127.0.0.1:1/mcp"),
    ],
    ids=lambda server: server.name,
)
async def test_a_server_that_cannot_be_reached_was_sent_nothing(server: McpServer) -> None:
    with pytest.raises(Refused, match=f"the MCP server {server.name} cannot be reached"):
        await server.tools()
    await server.close()


async def test_only_some(tmp_path: Path) -> None:
    command = [sys.executable, str(PROGRAM), "stdio", str(tmp_path / "done")]
    async with hf.mcp("shop", command, only=["l*", "pay"]) as server:
        assert sorted(tool.name for tool in await server.tools()) == ["shop.long", "shop.lookup", "shop.pay"]


def test_servers_that_make_no_sense_are_refused() -> None:
    with pytest.raises(InvalidSetting, match="a command or a url"):
        hf.mcp("x")
    with pytest.raises(InvalidSetting, match="a command or a url"):
        hf.mcp("x", ["y"], url="http://z")
    with pytest.raises(InvalidSetting, match="is one text"):
        hf.mcp("x", "npx server")


def test_a_schema_that_points_outside_is_not_followed() -> None:
    """A server could make us ask anybody for the rest of its schema."""
    offer = Offer("t", {"type": "object", "properties": {"a": {"$ref": "http://127.0.0.1:9/x"}}})
    with pytest.raises(InvalidSetting, match="is not part of it"):
        hf.mcp("s", ["program"])._tool(offer).check_arguments({"a": 1})


async def test_in_run_tools_a_reply_of_a_real_client(shop: Shop) -> None:
    given = await hf.run_tools(claude([("shop_lookup", {"what": "kelp"})]), await shop.server.tools())
    assert texts(given) == ["KELP"]
