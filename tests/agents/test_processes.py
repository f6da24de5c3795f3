"""Programs that a tool runs: real ones, with real children, really killed."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import pytest

import holdfast as hf
from holdfast.agents import subprocesses
from holdfast.agents.subprocesses import Ended
from holdfast.engine.host_processes import HostProcesses
from holdfast.errors import InvalidSetting, JobCancelled, Refused
from holdfast.model.worker_identity import ProcessStatus

pytestmark = pytest.mark.store("sqlite")

PATIENCE_S = 20.0

FAMILY = textwrap.dedent(
    """
    import os, subprocess, sys, time
    folder, deaf = sys.argv[1], sys.argv[2] == "deaf"
    if deaf:
        import signal
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
    open(folder + "/pids.new", "w").write(f"{os.getpid()} {child.pid}")
    os.rename(folder + "/pids.new", folder + "/pids")
    time.sleep(600)
    """
)
"""A program with a child of its own; both stay for ten minutes."""


async def family(folder: Path) -> list[int]:
    """The pids of the program and its child, once both are there."""
    async with asyncio.timeout(PATIENCE_S):
        while not (folder / "pids").exists():
            await asyncio.to_thread(_nap)
    return [int(pid) for pid in (folder / "pids").read_text().split()]


def _nap() -> None:
    with subprocess.Popen(["sleep", "0.01"]) as nap:
        nap.wait()


async def gone(pids: list[int]) -> bool:
    """Whether none of them runs any more, given a moment."""
    seen = HostProcesses("boot").look_up
    try:
        async with asyncio.timeout(PATIENCE_S):
            while any(seen(pid) is not ProcessStatus.GONE for pid in pids):
                await asyncio.to_thread(_nap)
    except TimeoutError:
        return False
    return True


def here(pids: list[int]) -> bool:
    return all(isinstance(HostProcesses("boot").look_up(pid), int) for pid in pids)


async def test_what_a_program_printed_and_how_it_ended() -> None:
    script = "import sys; print(sys.stdin.read().upper()); print('oh', file=sys.stderr); sys.exit(7)"
    ended = await hf.run_process([sys.executable, "-c", script], input="häh")
    assert ended == Ended(7, "HÄH\n", "oh\n")
    killed = await hf.run_process(["sh", "-c", "kill -9 $$"])
    assert killed.status == -signal.SIGKILL
    deaf = await hf.run_process(["true"], input=b"x" * 1_000_000)
    assert deaf.status == 0, "it may stop reading whenever it likes"


async def test_output_beyond_the_limit_is_cut_and_said() -> None:
    script = "import sys; sys.stdout.write('x' * 3_000_000); sys.stderr.write('y' * 100)"
    ended = await hf.run_process([sys.executable, "-c", script], output_max=100)
    assert ended == Ended(0, "x" * 100, "y" * 100, stdout_truncated=True)


async def test_the_environment_is_clean(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("API_KEY", "secret")
    shown = (await hf.run_process(["env"], env={"COLOUR": "red"})).stdout
    assert "secret" not in shown
    assert "COLOUR=red\n" in shown
    assert f"PATH={os.environ['PATH']}\n" in shown
    assert "API_KEY=secret\n" in (await hf.run_process(["env"], inherit_env=True)).stdout
    assert (await hf.run_process(["pwd", "-P"], cwd=tmp_path)).stdout.strip() == str(tmp_path.resolve())


async def test_a_program_that_cannot_be_started_did_nothing(tmp_path: Path) -> None:
    with pytest.raises(Refused, match="no-such-program"):
        await hf.run_process(["no-such-program"])
    with pytest.raises(Refused, match="could not be started"):
        await hf.run_process(["true"], cwd=tmp_path / "nowhere")
    with pytest.raises(InvalidSetting):
        await hf.run_process([])
    (tmp_path / "own.sh").write_text("#!/bin/sh\necho mine\n")
    (tmp_path / "own.sh").chmod(0o755)
    assert (await hf.run_process(["./own.sh"], cwd=tmp_path)).stdout == "mine\n"


@pytest.mark.parametrize("shell", ["/bin/sh", "/no/such/shell"])
@pytest.mark.parametrize("manners, status", [("polite", -signal.SIGTERM), ("deaf", -signal.SIGKILL)])
async def test_too_long_ends_the_whole_family(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, shell: str, manners: str, status: int
) -> None:
    monkeypatch.setattr(subprocesses, "_SHELL", Path(shell))
    command = [sys.executable, "-c", FAMILY, str(tmp_path), manners]
    running = asyncio.create_task(hf.run_process(command, timeout="3s", grace="200ms"))
    pids = await family(tmp_path)
    assert here(pids)
    ended = await running
    assert (ended.status, ended.timed_out) == (status, True)
    assert await gone(pids)


async def test_cancelled_again_and_again_it_is_gone_when_the_call_is_over(tmp_path: Path) -> None:
    running = asyncio.create_task(
        hf.run_process([sys.executable, "-c", FAMILY, str(tmp_path), "deaf"], grace="300ms")
    )
    pids = await family(tmp_path)
    while not running.done():
        running.cancel()
        await asyncio.wait([running], timeout=0.01)
    assert running.cancelled()
    assert HostProcesses("boot").look_up(pids[0]) is ProcessStatus.GONE, "not a moment later"
    assert await gone(pids)


async def test_what_a_program_leaves_behind_is_killed(tmp_path: Path) -> None:
    """It ends at once and leaves a child that holds its output open: nobody waits for that one."""
    script = "sleep 600 & echo $!"
    async with asyncio.timeout(PATIENCE_S):
        ended = await hf.run_process(["sh", "-c", script])
    assert ended.status == 0
    assert await gone([int(ended.stdout)])


async def test_who_leaves_the_group_is_not_waited_for(tmp_path: Path) -> None:
    """It leaves its group and holds the output open: the call is over all the same."""
    script = "import subprocess as s; print(s.Popen(['sleep', '600'], start_new_session=True).pid)"
    async with asyncio.timeout(PATIENCE_S):
        ended = await hf.run_process([sys.executable, "-c", script], grace="100ms")
    pid = int(ended.stdout)
    assert (ended.status, here([pid])) == (0, True)
    os.kill(pid, signal.SIGKILL)


async def test_a_cancelled_job_ends_its_programs(tmp_path: Path) -> None:
    app = hf.App(store=f"sqlite:///{tmp_path / 'test.db'}")

    @app.tool(effect="read_only")
    async def work() -> Any:
        await hf.run_process([sys.executable, "-c", FAMILY, str(tmp_path), "polite"])

    @app.agent
    async def worker() -> None:
        await work()

    async with app.running():
        job = await worker.start()
        pids = await family(tmp_path)
        await job.cancel("enough")
        with pytest.raises(JobCancelled):
            await job.result()
        assert HostProcesses("boot").look_up(pids[0]) is ProcessStatus.GONE, (
            "the job is over when its programs are"
        )
        assert await gone(pids)


WORKER = textwrap.dedent(
    """
    import asyncio, sys
    from pathlib import Path
    from holdfast.agents import subprocesses
    if sys.argv[3] == "bare":
        subprocesses._SHELL = Path("/no/such/shell")
    asyncio.run(subprocesses.run_process([sys.executable, "-c", sys.argv[1], sys.argv[2], "deaf"]))
    """
)


@pytest.mark.parametrize("guard", ["guarded", "bare"])
async def test_a_worker_killed_with_9_takes_its_programs_along(tmp_path: Path, guard: str) -> None:
    """Without a shell there is no guard, and the kernel ends the program alone."""
    worker = await asyncio.create_subprocess_exec(sys.executable, "-c", WORKER, FAMILY, str(tmp_path), guard)
    pids = await family(tmp_path)
    try:
        assert here(pids)
        worker.kill()
        await worker.wait()
        assert await gone(pids if guard == "guarded" else pids[:1])
    finally:
        for pid in pids:
            if isinstance(HostProcesses("boot").look_up(pid), int):
                os.kill(pid, signal.SIGKILL)


async def test_the_guard_alone_ends_the_family(tmp_path: Path) -> None:
    """As on a system without Linux's own way: the pipe closes, and everybody of the group is gone."""
    running = subprocesses._Running(1.0, 100)
    environment = subprocesses._environment(None, inherit_env=False)
    await running.start([sys.executable, "-c", FAMILY, str(tmp_path), "deaf"], environment, None)
    pids = await family(tmp_path)
    # As in the grace before a worker dies: whoever is deaf stays, and so does the guard.
    os.killpg(pids[0], signal.SIGTERM)
    assert here(pids)
    os.close(running.ours)
    assert await gone(pids)
    await running.closed()
