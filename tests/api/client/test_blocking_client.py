"""Goal: the blocking client is `Client` without await. Method: the generated file is compared with its generator; and a
plain program, without an event loop of its own, submits, waits, streams and is refused, on a store and by a server."""

from __future__ import annotations

import inspect
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from holdfast.client.blocking_client import BlockingClient
from holdfast.client.client import Client
from holdfast.errors import NotFound, NotOver, StoreReadOnly, StoreUnavailable
from tests.support.project import ROOT
from tools.make_blocking_client import generate

APP = """
import holdfast as hf

@hf.step
async def say(word: str) -> str:
    hf.emit(word)
    return word

@hf.agent
async def greet(name: str) -> str:
    return f"{await say('hello')} {name}"
"""


def test_the_file_is_what_the_client_says() -> None:
    written = (ROOT / "src/holdfast/client/blocking_client.py").read_text(encoding="utf-8")
    assert written == generate(), "python -m tools.make_blocking_client"


def test_every_method_is_there_with_its_parameters() -> None:
    for name, method in inspect.getmembers(Client, inspect.isfunction):
        if not name.startswith("_"):
            blocking = inspect.signature(getattr(BlockingClient, name))
            assert list(blocking.parameters) == list(inspect.signature(method).parameters), name
    assert not inspect.iscoroutinefunction(BlockingClient.submit)


def test_a_plain_program_on_a_store(tmp_path: Path) -> None:
    (tmp_path / "app.py").write_text(APP, encoding="utf-8")
    address = f"sqlite:///{tmp_path}/jobs.db"
    with BlockingClient.over_store(address) as client:
        job_id = client.submit("greet", {"name": "ada"}).job_id
        with pytest.raises(NotOver):
            client.result(job_id, timeout_s=0)
        with pytest.raises(NotFound):
            client.get("job_none")
        worker = subprocess.Popen(
            [sys.executable, "-m", "holdfast", "worker", "app.py", "--store", address],
            cwd=tmp_path,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        try:
            assert client.result(job_id, timeout_s=60).output == "hello ada"
            assert [chunk.said for chunk in client.stream(job_id)] == ["hello"]  # type: ignore[union-attr]
        finally:
            worker.terminate()
            worker.wait(30)
        assert [job.job_id for job in client.list().items] == [job_id]
    client.close()


def test_what_cannot_be_opened_leaves_no_thread(tmp_path: Path) -> None:
    with pytest.raises(StoreReadOnly):
        BlockingClient.over_store(f"sqlite:///{tmp_path}/none/jobs.db")
    assert [thread.name for thread in threading.enumerate() if thread.name == "holdfast-client"] == []


def test_a_server_that_does_not_answer_is_an_error() -> None:
    with BlockingClient.over_http("http://127.0.0.1:9") as client, pytest.raises(StoreUnavailable):
        client.list()
