"""The shell tool: its bounds of time, memory, output and environment, with real commands."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from typing import Any

import pytest

import holdfast as hf
from holdfast.agents.subprocesses import run_process
from holdfast.agents.toolbox import shell_tool
from holdfast.errors import InvalidSetting, JobCancelled, Refused
from tests.agents.replies import claude, faults, texts
from tests.agents.test_processes import FAMILY, family, gone, here
from tests.agents.waiting import waits_for


async def test_a_command_runs_in_the_folder(tmp_path: Path) -> None:
    shell = shell_tool(tmp_path)
    (tmp_path / "notes").write_text("kelp")
    ran = await shell(command="cat notes; pwd; echo oops >&2; exit 3")
    assert (ran.status, ran.stdout, ran.stderr) == (3, f"kelp{tmp_path.resolve()}\n", "oops\n")
    assert not ran.timed_out
    assert shell.terms.effect == "unsafe"
    assert shell_tool(tmp_path, name="git", effect="read_only").terms.effect == "read_only"


async def test_a_command_sees_no_secrets(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", "secret")
    ran = await shell_tool(tmp_path, env={"STAGE": "test"})(command="env; echo $STAGE")
    names = {line.partition("=")[0] for line in ran.stdout.splitlines()}
    assert "PATH" in names
    assert "ANTHROPIC_API_KEY" not in names
    assert ran.stdout.endswith("test\n")


async def test_a_command_that_takes_too_long_is_killed_with_its_children(tmp_path: Path) -> None:
    """Goal: nothing goes on behind the call's back. Method: a program and its child, deaf to SIGTERM."""
    (tmp_path / "family.py").write_text(FAMILY)
    shell = shell_tool(tmp_path, timeout="3s")
    running = asyncio.create_task(shell(command=f"echo begun; {sys.executable} family.py . deaf"))
    pids = await family(tmp_path)
    assert here(pids)
    ran = await running
    assert (ran.timed_out, ran.stdout) == (True, "begun\n")
    assert await gone(pids)
    assert shell.terms.longest_call_us > 3_000_000, "the engine waits for the tool to end it"


async def test_memory_is_bounded(tmp_path: Path) -> None:
    """The same program, below and above the bound."""
    shell = shell_tool(tmp_path, memory_max=512 * 1024 * 1024)
    small, large = [
        await shell(command=f"{sys.executable} -c 'x = bytearray({megabytes} << 20)'")
        for megabytes in (64, 1024)
    ]
    assert (small.status, large.status) == (0, 1)
    assert "MemoryError" in large.stderr


async def test_of_a_flood_the_beginning_and_the_end_are_kept(tmp_path: Path) -> None:
    ran = await shell_tool(tmp_path, output_max=1_000)(command="seq 1 100000; echo last >&2")
    assert ran.stdout.startswith("1\n2\n3\n")
    assert ran.stdout.endswith("99999\n100000\n")
    assert "[… 587,895 bytes left out …]" in ran.stdout
    assert len(ran.stdout) < 1_100
    assert ran.stderr == "last\n"


@pytest.mark.parametrize("size", [9, 10, 11])
async def test_what_is_kept_is_exact_at_the_edge(size: int) -> None:
    ended = await run_process(["printf", "%s", "x" * size], output_max=10, output_tail=5)
    assert ended.stdout_truncated == (size > 10)
    assert ended.stdout.count("x") == min(size, 10)
    assert ("1 bytes left out" in ended.stdout) == (size > 10)


@pytest.mark.parametrize("command", ["echo \0", "echo \ud800"])
async def test_what_no_shell_can_take_is_refused(tmp_path: Path, command: str) -> None:
    with pytest.raises(Refused):
        await shell_tool(tmp_path)(command=command)


def test_a_folder_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(InvalidSetting, match="does not exist"):
        shell_tool(tmp_path / "nothing")


@pytest.mark.store("sqlite")
async def test_a_cancelled_job_takes_its_command_along(tmp_path: Path) -> None:
    app = hf.App(store=f"sqlite:///{tmp_path / 'test.db'}")
    (tmp_path / "family.py").write_text(FAMILY)
    shell = shell_tool(tmp_path, timeout="10m")

    @app.agent
    async def program() -> Any:
        return await shell(command=f"{sys.executable} family.py . quick")

    async with app.running():
        job = await program.start()
        pids = await family(tmp_path)
        await job.cancel("enough")
        with pytest.raises(JobCancelled):
            await job.result()
        assert await gone(pids)


@pytest.mark.store("sqlite")
async def test_a_model_runs_commands_and_a_person_agrees(tmp_path: Path) -> None:
    """In a job: the status is the result, also when it is not 0; and leave is asked for before anything runs."""
    app = hf.App(store=f"sqlite:///{tmp_path / 'test.db'}")
    free = shell_tool(tmp_path, name="free")
    asking = shell_tool(tmp_path, name="asking", approve=lambda command: "rm" in command)

    @app.agent
    async def program(command: str) -> Any:
        reply = claude(
            [("free", {"command": "exit 7"}), ("asking", {"command": command}), ("free", {"cmd": "ls"})]
        )
        return await hf.run_tools(reply, [free, asking])

    async with app.running() as process:
        given = await program("echo fine")
        assert texts(given)[:2] == ['{"status":7}', '{"status":0,"stdout":"fine\\n"}']
        assert faults(given)[2] == "invalid_arguments"
        (tmp_path / "precious").touch()
        job = await program.start("rm precious")
        await waits_for(process, job.id, "approval")
        assert (tmp_path / "precious").exists()
