"""Goal: the audit hook sees what job code does on every loop and in test helpers, and costs next to nothing. Method:
agents in this process, on asyncio's loop and on uvloop; the log."""

from __future__ import annotations

import asyncio
import logging
import sys
import tempfile
from pathlib import Path

import pytest
import uvloop

import holdfast as hf
from holdfast.engine import audit_hook
from holdfast.errors import InvalidSetting
from holdfast.testing import DidNotSurvive, running, survives_crashes


async def serve(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    writer.close()


@pytest.mark.parametrize("loop_factory", [asyncio.new_event_loop, uvloop.new_event_loop])
def test_a_loop_in_c_is_seen_as_well(
    loop_factory: type, caplog: pytest.LogCaptureFixture, tmp_path: Path
) -> None:
    """uvloop connects and starts processes in C, without an event of Python."""
    app = hf.App("memory:", on_undurable="warn")
    ports: list[int] = []

    async def connect() -> None:
        _, writer = await asyncio.open_connection("127.0.0.1", ports[0])
        writer.close()

    @app.tool(effect="read_only")
    async def look() -> None:
        await connect()

    @app.agent
    async def acts() -> None:
        await look()
        await connect()
        process = await asyncio.create_subprocess_exec("/bin/true")
        await process.wait()

    async def main() -> None:
        async with await asyncio.start_server(serve, "127.0.0.1", 0) as server:
            ports.append(server.sockets[0].getsockname()[1])
            async with app.running():
                await acts()

    with (
        caplog.at_level(logging.WARNING, "holdfast.undurable"),
        asyncio.Runner(loop_factory=loop_factory) as runner,
    ):
        runner.run(main())
    said = [record.getMessage() for record in caplog.records if record.name == "holdfast.undurable"]
    assert len(said) == 2, said
    assert f"connects to 127.0.0.1:{ports[0]} from the agent's own code, at {__file__}:" in said[0]
    assert "in test_a_loop_in_c_is_seen_as_well.<locals>.connect" in said[0]
    assert "starts the process /bin/true" in said[1]


def test_survives_crashes_refuses_it(tmp_path: Path) -> None:
    app = hf.App()

    @app.agent
    async def writes(where: str) -> str:
        Path(where).write_text("done", encoding="utf-8")
        return where

    with pytest.raises(DidNotSurvive) as refused:
        survives_crashes(writes, str(tmp_path / "out.txt"))
    assert f"opens {tmp_path / 'out.txt'} for writing, at {__file__}:" in str(refused.value)
    assert "Put it in a tool: @hf.tool(effect=…)" in str(refused.value)
    assert not (tmp_path / "out.txt").exists()


def test_survives_crashes_leaves_it_to_an_app_that_says_so(tmp_path: Path) -> None:
    app = hf.App(on_undurable="ignore")

    @app.agent
    async def writes(where: str) -> str:
        Path(where).write_text("done", encoding="utf-8")
        return where

    survives_crashes(writes, str(tmp_path / "out.txt"))
    assert (tmp_path / "out.txt").exists()


async def test_an_application_in_a_test_is_warned(caplog: pytest.LogCaptureFixture) -> None:
    app = hf.App()

    @app.agent
    async def keeps() -> str:
        with tempfile.NamedTemporaryFile("w") as file:
            return file.name

    async with running(app):
        await keeps()
    (said,) = [record.getMessage() for record in caplog.records if record.name == "holdfast.undurable"]
    assert f"at {__file__}:" in said


def test_a_setting_that_is_not_known_is_refused() -> None:
    with pytest.raises(InvalidSetting, match="on_undurable='loudly' is not known"):
        hf.App(on_undurable="loudly")  # type: ignore[arg-type]


def test_other_events_are_left_with_one_look() -> None:
    """Method: the calls of Python functions that the hook makes for an event that is not its own."""
    called: list[str] = []

    def profile(frame: object, event: str, _arg: object) -> None:
        if event == "call":
            called.append(frame.f_code.co_name)  # type: ignore[attr-defined]

    sys.setprofile(profile)
    try:
        audit_hook._hook("object.__getattr__", ())
        audit_hook._hook("open", ("a file", "w", 1))
    finally:
        sys.setprofile(None)
    assert called == ["_hook", "_hook"]
