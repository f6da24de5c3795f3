"""Goal: a worker loses its jobs when it is gone, and only then: blocking code keeps them, kill -9 frees them at once, a
frozen worker loses them after its lease. Method: `holdfast worker`, signals, the receiver's own log, and the rows of
`worker_leases` as the database shows them. Leases that could only run out by a clock are set to ten minutes, so that
a test which completes has seen another way."""

from __future__ import annotations

import asyncio
import signal

import apsw
import asyncpg
import pytest

from holdfast.model.states import Status
from tests.kill.processes.receiver import Receiver
from tests.kill.processes.stage import KILL, PATIENCE_S, Stage
from tests.support.project import ROOT

pytestmark = pytest.mark.timeout(180)

APP = ROOT / "tests/kill/processes/lease_app.py"
SHORT_S = 2
NEVER = {"HOLDFAST_LEASE_TTL": "10m"}
SHORT = {"HOLDFAST_LEASE_TTL": f"{SHORT_S}s"}
BEATS_PER_LEASE = 6


async def read_beats(address: str) -> dict[int, int]:
    """The beat of each worker, by pid, as the database has it."""
    statement = "SELECT identity, beat FROM {}worker_leases"
    if address.startswith("sqlite"):
        connection = apsw.Connection(address.removeprefix("sqlite:///"), flags=apsw.SQLITE_OPEN_READONLY)
        try:
            rows = list(connection.execute(statement.format("")))
        finally:
            connection.close()
    else:
        server = await asyncpg.connect(address)
        try:
            rows = [tuple(row) for row in await server.fetch(statement.format("holdfast."))]
        finally:
            await server.close()
    return {int(str(identity).split("/")[2]): int(beat) for identity, beat in rows}


async def until_beaten(address: str, pid: int, times: int) -> None:
    """Wait for the worker to beat so many times from now."""
    goal = None
    async with asyncio.timeout(2 * PATIENCE_S):
        while True:
            beat = (await read_beats(address)).get(pid)
            goal = beat + times if goal is None and beat is not None else goal
            if beat is not None and goal is not None and beat >= goal:
                return
            await asyncio.sleep(0.05)  # the database does not tell when a row changes


@pytest.mark.parametrize("kind, call", [("mails", "mail"), ("faxes", "fax")])
async def test_code_that_blocks_the_loop_keeps_its_lease(
    stage: Stage, receiver: Receiver, where: str, kind: str, call: str
) -> None:
    """An async tool blocks the event loop for two leases, with another worker beside it. The call is sent once, nobody
    is asked, and the log names the blocking line and the remedy."""
    stage.environment = SHORT
    receiver.hold("letter")
    blocked = await stage.worker(APP)
    await stage.submit(kind, item="letter")
    await receiver.until_arrived("letter")
    await stage.worker(APP)
    await until_beaten(where, blocked.process.pid, 2 * BEATS_PER_LEASE)
    await blocked.wait_for_log("lease_app.py")
    assert "plain `def` tool" in blocked.log
    await receiver.release()
    assert await stage.completed() == f"{call} letter"
    assert receiver.counts(call) == {"letter": 1}
    assert (await stage.types()).count("job_claimed") == 1


async def test_a_killed_worker_is_replaced_at_once(stage: Stage, receiver: Receiver) -> None:
    """The lease is ten minutes, and the other worker has never heard of it when it starts: only the kernel can tell."""
    stage.environment = NEVER
    receiver.hold("page")
    first = await stage.worker(APP)
    await stage.submit("waits", item="page")
    await receiver.until_arrived("page")
    await stage.worker(APP)
    await first.end(KILL)
    await receiver.until_arrived("page", times=2)
    await receiver.release()
    assert await stage.completed() == "read page"


async def test_a_server_frees_the_jobs_of_a_killed_worker(stage: Stage, receiver: Receiver) -> None:
    """No worker is left, and the lease is ten minutes: the maintenance loop of the API server on the same host finds
    that the process is gone, and the job is pending again for the next worker."""
    stage.environment = NEVER
    receiver.hold("page")
    server = await stage.command("serve", "--port", "0")
    await server.wait_for_log("listening on")
    worker = await stage.worker(APP)
    await stage.submit("waits", item="page")
    await receiver.until_arrived("page")
    await worker.end(KILL)
    await stage.until_recorded("job_requeued", times=1)
    await receiver.release()
    assert (await stage.job()).status is Status.PENDING
    await stage.worker(APP)
    assert await stage.completed() == "read page"


async def test_a_frozen_worker_loses_its_jobs_after_its_lease(
    stage: Stage, receiver: Receiver, where: str
) -> None:
    """SIGSTOP: another worker takes over. SIGCONT: what the frozen one would write is refused, and it takes a new
    lease."""
    stage.environment = SHORT
    receiver.hold("page")
    frozen = await stage.worker(APP)
    await stage.submit("waits", item="page")
    await receiver.until_arrived("page")
    await stage.stop(frozen)
    other = await stage.worker(APP)
    await receiver.until_arrived("page", times=2)
    assert frozen.process.pid not in await read_beats(where)
    await receiver.release()
    assert await stage.completed() == "read page"
    frozen.process.send_signal(signal.SIGCONT)
    await until_beaten(where, frozen.process.pid, 2)
    await until_beaten(where, other.process.pid, 2)
    await stage.submit("waits", "next", item="chapter")
    assert await stage.completed("next") == "read chapter"
    assert (await stage.types()).count("job_claimed") == 2


async def test_nobody_says_that_it_did_not_happen_while_the_sender_stands_still(
    stage: Stage, receiver: Receiver
) -> None:
    """An unsafe call whose worker is stopped in the middle: another worker takes the job over, and a person is asked.
    "It did not happen" is refused with the process to end; once it has ended, only the quiet time is left."""
    stage.environment = SHORT
    receiver.hold("letter")
    frozen = await stage.worker(APP)
    await stage.submit("waits_for_fax", item="letter")
    await receiver.until_arrived("letter")
    await stage.stop(frozen)
    await stage.worker(APP)
    await stage.until_uncertain("job")
    (need,) = (await stage.job()).needs
    assert need.step_key is not None
    said = ("reconcile", "job", need.step_key, "--not-happened", "--why", "looked", "--by", "ada")
    refused = await stage.refused(*said)
    assert f"kill -9 {frozen.process.pid}" in refused
    await frozen.end(KILL)
    assert "kill -9" not in await stage.refused(*said)
    await stage.holdfast("reconcile", "job", need.step_key, "--skip", "--why", "looked", "--by", "ada")
    assert await stage.completed() is None


async def test_a_worker_that_is_blocked_for_too_long_ends_and_names_the_line(
    stage: Stage, receiver: Receiver
) -> None:
    """The limit is a few seconds here. The worker gives up its jobs before its lease could run out, ends with a status
    of its own, and another worker completes the job."""
    stage.environment = {**NEVER, "HOLDFAST_BLOCKING_LIMIT": "1s"}
    receiver.hold("page")
    blocked = await stage.worker(APP)
    await stage.submit("reads", item="page")
    await receiver.until_arrived("page")
    assert await blocked.over() == 70
    assert "lease_app.py" in blocked.log
    assert "HOLDFAST_BLOCKING_LIMIT" in blocked.log
    await receiver.release()
    await stage.worker(APP)
    assert await stage.completed() == "read page"


async def test_a_loop_that_is_closed_gives_up_its_jobs(stage: Stage, receiver: Receiver) -> None:
    """A script closes its event loop under a running job and goes on without it. Another worker takes the job over,
    though the process lives and its lease would last for ten minutes."""
    stage.environment = NEVER
    receiver.hold("left")
    script = await stage.script(app=APP, stdin=asyncio.subprocess.PIPE)
    await receiver.until_arrived("left")
    await stage.worker(APP)
    assert script.process.stdin is not None
    script.process.stdin.write(b"close it\n")
    await script.wait_for_log("closed")
    await receiver.until_arrived("left", times=2)
    await receiver.release()
    assert await stage.completed() == "read left"


async def test_a_lease_time_that_is_none_is_refused(stage: Stage) -> None:
    stage.environment = {"HOLDFAST_LEASE_TTL": "soon"}
    said = await stage.refused("worker", str(APP))
    assert "HOLDFAST_LEASE_TTL" in said
    assert "30s" in said
