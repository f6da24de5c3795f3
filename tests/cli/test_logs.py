"""What a process says about itself: for people, or for machines; with the job, the fence, the request, the worker."""

from __future__ import annotations

import io
import json
import logging
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx2
import pytest

from holdfast.cli.logs import logging_as
from holdfast.engine.log_context import add_context
from holdfast.errors import InvalidSetting
from tests.api.server.api import api, as_owner
from tests.api.server.test_serve import holdfast, serving
from tests.support.fixtures.stores import SqliteBackend

APP = """
import logging
import holdfast as hf

@hf.tool(effect="read_only")
async def look(page: str) -> str:
    logging.getLogger("shop").warning("looking at %s", page)
    return page

@hf.agent
async def reader(page: str) -> str:
    return await look(page)
"""


@contextmanager
def said(form: str, level: str = "info", worker: str = "") -> Iterator[tuple[io.StringIO, logging.Logger]]:
    stream = io.StringIO()
    with logging_as(form, level, stream) as log:
        if worker:
            log.set_worker(worker)
        yield stream, logging.getLogger("holdfast.test")


def test_json_is_one_object_on_a_line_with_what_is_known() -> None:
    with said("json", worker="w-1") as (stream, log):
        log.info("plain")
        with add_context(job_id="job_7", fence=12), add_context(request_id="r-1"):
            log.warning("two\nlines of %s \x1b[31m", "it")
    lines: list[dict[str, Any]] = [json.loads(line) for line in stream.getvalue().splitlines()]
    assert [line["level"] for line in lines] == ["info", "warning"]
    assert lines[0].keys() == {"time", "level", "logger", "message", "worker"}
    assert lines[1]["message"] == "two\nlines of it \x1b[31m"
    about_it = {name: lines[1][name] for name in ("job_id", "fence", "request_id", "worker", "logger")}
    expected = {
        "job_id": "job_7",
        "fence": 12,
        "request_id": "r-1",
        "worker": "w-1",
        "logger": "holdfast.test",
    }
    assert about_it == expected
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", lines[1]["time"])
    assert "\x1b" not in stream.getvalue()


def test_text_is_for_people_and_drives_no_terminal() -> None:
    with said("text") as (stream, log), add_context(job_id="job_7", fence=12):
        log.warning("red \x1b[31m alert")
    line = stream.getvalue()
    assert re.match(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d{3} WARNING holdfast\.test: red ", line)
    assert line.endswith("  job=job_7 fence=12\n")
    assert "\x1b" not in line


def test_an_error_brings_its_traceback_on_the_same_line() -> None:
    with said("json") as (stream, log):
        try:
            raise LookupError("gone")
        except LookupError:
            log.exception("it broke")
    (line,) = stream.getvalue().splitlines()
    assert json.loads(line)["error"].endswith("LookupError: gone")


def test_less_than_the_level_is_not_said() -> None:
    before = logging.getLogger().handlers[:]
    with said("text", "warning") as (stream, log):
        log.info("chatter")
    assert (stream.getvalue(), logging.getLogger().handlers) == ("", before), "and afterwards it is as it was"
    with pytest.raises(InvalidSetting), logging_as("xml", "info"):
        pass


@pytest.mark.parametrize("level, told", [("info", ["it failed"]), ("debug", ["POST /", "it failed"])])
def test_a_line_for_every_request_is_for_whoever_asks(level: str, told: list[str]) -> None:
    with said("text", level) as (stream, _):
        client = logging.getLogger("httpx2")
        client.info("POST /")
        client.warning("it failed")
    assert [line.rpartition(": ")[2] for line in stream.getvalue().splitlines()] == told


@pytest.mark.store("sqlite")
def test_a_worker_says_which_job_a_line_is_about(volatile_folder: Path) -> None:
    """Also in the job's own code, and in the code of its tools."""
    (volatile_folder / "app.py").write_text(APP, encoding="utf-8")
    where = f"sqlite:///{volatile_folder / 'h.db'}"
    with serving(where) as (_, url):
        made = httpx2.post(
            f"{url}/api/jobs", json={"kind": "reader", "input": {"page": "p7"}}, headers=as_owner(url)
        ).json()
        worker = holdfast(
            "worker",
            str(volatile_folder / "app.py"),
            "--store",
            where,
            "--name",
            "w-7",
            HOLDFAST_LOG_FORMAT="json",
        )
        try:
            httpx2.get(f"{url}/api/jobs/{made['job_id']}", params={"wait_ms": 20_000}, timeout=30)
        finally:
            worker.terminate()
            _, err = worker.communicate(timeout=30)
    lines = [json.loads(line) for line in err.splitlines() if line.startswith("{")]
    (ours,) = [line for line in lines if line["logger"] == "shop"]
    assert (ours["message"], ours["job_id"], ours["worker"]) == ("looking at p7", made["job_id"], "w-7")
    assert ours["fence"] > 0


@pytest.mark.store("sqlite")
async def test_a_server_says_which_request_a_line_is_about(volatile_folder: Path) -> None:
    backend = SqliteBackend(volatile_folder)
    async with api(backend) as web:
        await web.one.store.close()
        with said("json") as (stream, _):
            answer = await web.ask("GET", "/api/jobs", x_request_id="mine-1")
        assert answer.status_code == 503
    lines = [json.loads(line) for line in stream.getvalue().splitlines()]
    assert [line["request_id"] for line in lines if line["logger"] == "holdfast.server"] == ["mine-1"]
