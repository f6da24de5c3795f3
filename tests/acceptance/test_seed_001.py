"""Goal: seed 001 by name, 7 of 7. Method: `holdfast run` as a real process, killed where each case says, resumed with
the command it printed; the receiver's own log and the tools' own logs are the witnesses."""

from __future__ import annotations

import asyncio
import json
import os
import shlex
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import apsw
import asyncpg
import pytest

from holdfast.runtime import open_store
from tests.acceptance.matrix.receiver import Receiver, serving
from tests.support.project import ROOT

pytestmark = [pytest.mark.parametrize("lane", ["sqlite", "postgres"])]

MAILS = ("keyed", "draft", "probe", "plain")
DUPLICATE_KEYS = """
SELECT idempotency_key, COUNT(*) AS c
FROM tool_calls
GROUP BY idempotency_key
HAVING c > 1;
"""
SIDE_EFFECTS = """
SELECT tool_name, status, COUNT(*) AS c
FROM tool_calls
WHERE side_effect_class != 'read_only'
GROUP BY tool_name, status;
"""


class Matrix:
    """One workspace, one store, one receiver, and the command line."""

    def __init__(self, folder: Path, store: str, receiver: Receiver) -> None:
        self.folder = folder
        self.store = store
        self.receiver = receiver
        self.resume_file = folder / "RestartWithThis.md"
        self.workspace = folder / "workspace"
        self.workspace.mkdir()

    def environment(self, **more: str) -> dict[str, str]:
        return {
            **os.environ,
            "PYTHONPATH": f"{ROOT / 'src'}{os.pathsep}{ROOT}",
            "MATRIX_WORKSPACE": str(self.workspace),
            "MATRIX_RECEIVER": self.receiver.url,
            **more,
        }

    def start(self, agent: str = "report", **more: str) -> subprocess.Popen[str]:
        """`holdfast run --job …`, and its job id once it has one."""
        spec = self.folder / "job.json"
        given = {"topic": "kelp"} if agent == "report" else {"folder": "."}
        app = str(ROOT / "tests/acceptance/matrix/app.py")
        spec.write_text(json.dumps({"agent": agent, "input": given, "app": app}))
        arguments = ["run", "--job", str(spec), "--store", self.store]
        return self._spawn([*arguments, "--write-resume", str(self.resume_file)], **more)

    def _spawn(self, arguments: list[str], **more: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [sys.executable, "-m", "holdfast.cli", *arguments],
            env=self.environment(**more),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def crashed(self, **more: str) -> None:
        """The job after a crash on order: status 137, no cleanup."""
        process = self.start(**more)
        out, err = process.communicate(timeout=60)
        assert process.returncode == 137, (out, err)
        assert "dies here as ordered" in err

    def killed(self, hanging: str, agent: str = "report", **more: str) -> None:
        """The job after kill -9 while this tool ran."""
        process = self.start(agent, MATRIX_HANGS=hanging, **more)
        while hanging not in self.started():
            assert process.poll() is None, process.communicate()
            os.sched_yield()
        os.kill(process.pid, signal.SIGKILL)
        process.communicate()
        assert process.returncode == -signal.SIGKILL

    def resumed(self, status: int = 0, **more: str) -> Any:
        """What the command that was written down comes to."""
        holdfast, *arguments = shlex.split(self.resume_file.read_text())
        assert holdfast == "holdfast"
        process = self._spawn(arguments, **more)
        out, err = process.communicate(timeout=60)
        assert process.returncode == status, (out, err)
        return json.loads(out) if status == 0 else err

    def say(self, *arguments: str) -> str:
        done = self._spawn([*arguments, "--store", self.store])
        out, err = done.communicate(timeout=60)
        assert done.returncode == 0, (out, err)
        return out

    @property
    def job_id(self) -> str:
        words = shlex.split(self.resume_file.read_text())
        return words[words.index("--run-id") + 1]

    def started(self) -> Counter[str]:
        log = self.workspace / "started.log"
        return Counter(log.read_text().split()) if log.exists() else Counter()

    def rows(self, sql: str) -> list[tuple[Any, ...]]:
        """The answer of plain SQL on the database as it lies there, asked by anybody."""
        if self.store.startswith("sqlite:///"):
            return list(apsw.Connection(self.store.removeprefix("sqlite:///")).execute(sql))

        async def ask() -> list[tuple[Any, ...]]:
            connection = await asyncpg.connect(self.store, server_settings={"search_path": "holdfast"})
            try:
                return [tuple(row) for row in await connection.fetch(sql)]
            finally:
                await connection.close()

        return asyncio.run(ask())

    def calls(self, tool: str) -> list[str]:
        async def ask() -> list[str]:
            store = await open_store(self.store)
            try:
                rows = await store.ledger.list(self.job_id)
            finally:
                await store.close()
            return [str(row.status) for row in rows if row.tool_name == tool]

        return asyncio.run(ask())

    def is_all_done_once(self) -> None:
        """One upload, one mail, one PDF; no key twice; every call settled."""
        assert Counter(self.receiver.done) == {"upload": 1, "mail": 1}
        assert [path.name for path in self.workspace.glob("*.pdf")] == ["report.pdf"]
        for tool in ("Bash", "mcp__local_toolkit__upload_to_composio", "GMAIL_SEND_EMAIL"):
            assert self.calls(tool) == ["succeeded"], tool


@pytest.fixture
def matrix(lane: str, tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Matrix]:
    if lane == "sqlite":
        store = f"sqlite:///{tmp_path / 'runtime_state.db'}"
    else:
        store = request.getfixturevalue("durable_postgres_database")
    with serving() as receiver:
        yield Matrix(tmp_path, store, receiver)


@pytest.mark.seed("001", check="kill_during_subagent_task")
def test_a_subagent_that_was_killed_is_launched_again(matrix: Matrix) -> None:
    matrix.killed("Task")
    matrix.resumed()
    assert matrix.calls("Task") == ["abandoned_on_resume", "succeeded"]
    assert matrix.started()["Task"] == 2
    matrix.is_all_done_once()


@pytest.mark.seed("001", check="kill_during_subagent_task")
def test_a_subagent_whose_output_is_there_is_not(matrix: Matrix) -> None:
    matrix.crashed(UA_TEST_CRASH_AFTER_TOOL="Task")
    matrix.resumed()
    assert matrix.calls("Task") == ["succeeded"]
    assert matrix.started()["Task"] == 1
    matrix.is_all_done_once()


@pytest.mark.seed("001", check="kill_after_pdf_render_before_upload")
def test_a_pdf_is_there_once(matrix: Matrix) -> None:
    matrix.crashed(UA_TEST_CRASH_AFTER_TOOL="Bash")
    assert (matrix.workspace / "report.pdf").exists()
    assert matrix.receiver.done == []
    matrix.resumed()
    matrix.is_all_done_once()


@pytest.mark.seed("001", check="kill_after_upload_before_email")
@pytest.mark.parametrize("name", ["upload_to_composio", "mcp__local_toolkit__upload_to_composio"])
def test_an_upload_is_not_repeated(matrix: Matrix, name: str) -> None:
    matrix.crashed(UA_TEST_CRASH_AFTER_TOOL=name)
    assert matrix.receiver.done == ["upload"]
    matrix.resumed()
    matrix.is_all_done_once()


@pytest.mark.parametrize("mail", MAILS)
@pytest.mark.parametrize(
    "stage",
    [
        pytest.param(
            "after_tool_success_before_ledger_commit",
            marks=pytest.mark.seed("001", check="kill_after_email_before_ledger_mark"),
        ),
        pytest.param(
            "after_tool_success_before_receipt",
            marks=pytest.mark.seed("001", check="kill_after_email_before_receipt"),
        ),
    ],
)
def test_a_mail_is_sent_once(matrix: Matrix, stage: str, mail: str) -> None:
    """Keyed 1, draft 1, probe 1; plain 1 and an uncertain call, which a person settles."""
    tool = "gmail_send_email" if mail == "keyed" else "GMAIL_SEND_EMAIL"
    match = "slug" if mail == "keyed" else "raw"
    ordered = {
        "UA_TEST_CRASH_AFTER_TOOL": tool,
        "UA_TEST_CRASH_STAGE": stage,
        "UA_TEST_CRASH_MATCH": match,
        "MATRIX_MAIL": mail,
    }
    matrix.crashed(**ordered)
    assert matrix.receiver.count("mail") == 1, "it was killed after the mail"
    if mail != "plain":
        assert matrix.resumed(MATRIX_MAIL=mail)["receipt"] == {"receipt": 2}
        matrix.is_all_done_once()
        return
    said = matrix.resumed(status=1, MATRIX_MAIL=mail)
    assert f"holdfast reconcile {matrix.job_id} 0/GMAIL_SEND_EMAIL#1" in said
    assert matrix.calls("GMAIL_SEND_EMAIL") == ["uncertain"]
    assert matrix.receiver.count("mail") == 1
    step = "0/GMAIL_SEND_EMAIL#1"
    matrix.say("reconcile", matrix.job_id, step, "--happened", "--why", "it is in the sent folder")
    assert matrix.resumed(MATRIX_MAIL=mail)["receipt"] is None
    matrix.is_all_done_once()


@pytest.mark.seed("001", check="kill_during_read_only_step")
def test_a_read_is_simply_made_again(matrix: Matrix) -> None:
    matrix.killed("list_files", agent="reader")
    assert "started.log" in matrix.resumed()
    assert matrix.started() == {"list_files": 2}
    assert (matrix.receiver.done, matrix.rows("SELECT * FROM tool_calls")) == ([], [])


@pytest.mark.seed("001", check="database_checks_as_written")
def test_the_database_says_the_same(matrix: Matrix, lane: str) -> None:
    """The seed's own queries, letter for letter on SQLite; Postgres knows no column alias in HAVING."""
    matrix.crashed(UA_TEST_CRASH_AFTER_TOOL="upload_to_composio")
    matrix.resumed()
    duplicates = DUPLICATE_KEYS if lane == "sqlite" else DUPLICATE_KEYS.replace("HAVING c", "HAVING COUNT(*)")
    assert matrix.rows(duplicates) == []
    assert sorted(matrix.rows(SIDE_EFFECTS)) == [
        ("Bash", "succeeded", 1),
        ("GMAIL_SEND_EMAIL", "succeeded", 1),
        ("Task", "succeeded", 1),
        ("mcp__local_toolkit__upload_to_composio", "succeeded", 1),
    ]
