"""Restate: its server, with its own log on our disk, and an endpoint in a process of its own. A step is a `run`.

The log is flushed for each batch of commits, as shipped.
"""

# mypy: ignore-errors

from __future__ import annotations

import asyncio
import os
import socket
import subprocess
import time

import httpx
import hypercorn.asyncio
import hypercorn.config
import line
import restate

RESULT: dict = {}
LIVE_FROM = None
AGAIN = 0
jobs = restate.Service("Jobs")


@jobs.handler()
async def series(context: restate.Context, steps: int) -> int:
    for number in range(steps):
        answer = await context.run_typed(f"fetch-{number}", fetch, number=number)
        assert answer["status"] == number
    return steps


async def fetch(number: int) -> dict:
    global AGAIN
    if LIVE_FROM is not None:
        if number >= LIVE_FROM:
            line.say("reached", {"again": AGAIN})
            await asyncio.Event().wait()  # the process is killed here
        AGAIN += 1
    return {**RESULT, "status": number}


def ports(many):
    """So many that nobody has."""
    probes = [socket.socket() for _ in range(many)]
    try:
        for probe in probes:
            probe.bind(("127.0.0.1", 0))
        return [probe.getsockname()[1] for probe in probes]
    finally:
        for probe in probes:
            probe.close()


class Peer(line.Work):
    workers_count = 1

    async def open(self):
        path = self.told.address.removeprefix("sqlite:///")
        ingress, admin, node, self.told.port = ports(4)
        self.ingress, self.admin = f"http://127.0.0.1:{ingress}", f"http://127.0.0.1:{admin}"
        settings = {
            "RESTATE_INGRESS__BIND_PORT": ingress,
            "RESTATE_ADMIN__BIND_PORT": admin,
            "RESTATE_BIND_PORT": node,
            "RESTATE_BIND_IP": "127.0.0.1",
            "RESTATE_LISTEN_MODE": "tcp",
            "RESTATE_DISABLE_TELEMETRY": "true",
            "RESTATE_ADMIN__DISABLE_WEB_UI": "true",
            "RESTATE_LOG_FILTER": "error",
            # A worker that died is tried again soon; the time between two tries is in what `resume` takes.
            "RESTATE_DEFAULT_RETRY_POLICY__INITIAL_INTERVAL": "20ms",
            "RESTATE_DEFAULT_RETRY_POLICY__MAX_INTERVAL": "20ms",
            "RESTATE_DEFAULT_RETRY_POLICY__MAX_ATTEMPTS": "1000000",
        }
        self.server = subprocess.Popen(  # noqa: ASYNC220 - nobody waits yet
            [self.told.server, "--node-name", "bench", "--base-dir", f"{path}.restate", "--no-logo"],
            env=os.environ | {name: str(value) for name, value in settings.items()},
            stdout=subprocess.DEVNULL,
        )
        self.workers = line.Workers(self.told, 1)
        self.workers.start()
        self.http = httpx.AsyncClient(timeout=600, limits=httpx.Limits(max_connections=32))
        for _ in range(600):
            try:
                told = {"uri": f"http://127.0.0.1:{self.told.port}"}
                if (await self.http.post(f"{self.admin}/deployments", json=told)).status_code < 300:
                    break
            except httpx.TransportError:
                pass
            await asyncio.sleep(0.1)
        else:
            raise TimeoutError("the server did not come up")
        # It answers before its log can be written to.
        while (await self.http.post(f"{self.ingress}/Jobs/series", json=0)).status_code != 200:
            await asyncio.sleep(0.1)

    async def ask(self, sql):
        answer = await self.http.post(
            f"{self.admin}/query", json={"query": sql}, headers={"accept": "application/json"}
        )
        answer.raise_for_status()
        return answer.json()["rows"]

    async def count_done(self):
        sql = "SELECT count(*) AS n FROM sys_invocation WHERE status = 'completed'"
        return (await self.ask(sql))[0]["n"] - 1  # the first, of no steps, was ours

    async def count(self):
        steps = await self.ask("SELECT count(*) AS n FROM sys_journal WHERE entry_type = 'Command: Run'")
        return {"jobs": await self.count_done(), "steps": steps[0]["n"]}

    async def close(self):
        self.workers.stop()
        self.server.kill()
        self.server.wait()


class Serial(Peer):
    """Called through its ingress, which answers with the result."""

    async def operation(self, number):
        answer = await self.http.post(f"{self.ingress}/Jobs/series", json=self.told.steps)
        assert answer.json() == self.told.steps, answer.text


class Queue(Peer):
    """Sent, not called: the server keeps them and pushes them to the endpoint."""

    before = 0

    async def operation(self, number):
        sent = await asyncio.gather(*(self.send() for _ in range(self.told.jobs)))
        assert {answer.status_code for answer in sent} == {202}
        self.before += self.told.jobs
        while await self.count_done() < self.before:
            await asyncio.sleep(0.02)

    async def send(self):
        return await self.http.post(f"{self.ingress}/Jobs/series/send", json=self.told.steps)


class Resume(Peer):
    """The endpoint is killed at the first step that is not recorded. A new one starts to listen when the clock does."""

    async def open(self):
        self.told.live_from = self.told.steps
        await super().open()
        sent = await self.http.post(f"{self.ingress}/Jobs/series/send", json=self.told.steps + 1)
        assert sent.status_code == 202, sent.text
        await self.wait_until_reached()

    async def wait_until_reached(self):
        said = await asyncio.get_running_loop().run_in_executor(None, self.workers.running[0].stdout.readline)
        assert said.startswith("reached"), said
        return line.json.loads(said.partition(" ")[2])

    async def begin(self):
        self.workers.stop()
        self.told.waits = True
        self.workers = line.Workers(self.told, 1)
        self.workers.start()

    async def operation(self, number):
        began = time.perf_counter()
        worker = self.workers.running[0]
        worker.stdin.write("go\n")
        worker.stdin.flush()
        return {**await self.wait_until_reached(), "took_s": time.perf_counter() - began}

    async def count(self):
        return {}


def worker(told):
    global LIVE_FROM
    RESULT.update(told.result)
    LIVE_FROM = getattr(told, "live_from", None)
    config = hypercorn.config.Config()
    config.bind = [f"127.0.0.1:{told.port}"]
    config.errorlog = None
    app = restate.app(services=[jobs])
    if getattr(told, "waits", False):
        line.say("ready")
        line.sys.stdin.readline()
        line.end_with_input()
    else:
        line.end_with_input()
        line.say("ready")
    asyncio.run(hypercorn.asyncio.serve(app, config))


WORKS = {"serial": Serial, "queue": Queue, "pickup": Serial, "worker": worker, "resume": Resume}

line.main(WORKS)
