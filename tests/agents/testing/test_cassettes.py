"""Cassettes: a recorded job, and the code of today over it."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import holdfast as hf
from holdfast.errors import Broken, HoldfastError, InvalidMove, InvalidPayload, InvalidSetting, NotFound
from holdfast.testing import Drifted, record, replay_cassette, running
from holdfast.testing.cassette import load_cassette

ODD = {
    "text": "ümläut \ud800 \x00 \u2028 \U0001f980",
    "numbers": [1e22, 0.1, -0.0, 2**62, 1.5e-9],
    "empty": {},
}


def application(called: list[str], *, change: str = "") -> hf.App:
    """The same agent as it was recorded, or after a change."""
    app = hf.App(store="memory:")

    @app.tool(effect="read_only")
    async def look(order: str) -> dict[str, Any]:
        called.append("look")
        return {"order": order, **ODD}

    @app.tool
    def send(to: str, text: str) -> str:
        called.append("send")
        return f"sent to {to}"

    @app.tool
    async def mail(to: str, text: str) -> str:
        called.append("mail")
        return f"mailed to {to}"

    @app.agent
    async def support(order: str) -> list[str]:
        found = await look(order)
        await hf.sleep("2d")
        to = "Grace" if change == "another address" else "Ada"
        tell = mail if change == "another tool" else send
        said = [] if change == "no mail" else [await tell(to, found["order"])]
        if change == "another mail":
            said.append(await mail("Grace", "and you"))
        return [*said, "bye" if change == "another word" else "done"]

    return app


@pytest.fixture
async def cassette(tmp_path: Path) -> Path:
    called: list[str] = []
    app = application(called)
    path = tmp_path / "cassettes" / "support.json"
    async with running(app):
        job = await app.agents["support"].start("42")
        assert await job.result() == ["sent to Ada", "done"]
        await record(job, path)
    assert called == ["look", "send"]
    return path


@pytest.mark.store("memory")
async def test_nothing_is_called_again(cassette: Path) -> None:
    """Every call, and every byte of what it gave, comes from the file."""
    called: list[str] = []
    replayed = await replay_cassette(application(called), cassette)
    assert replayed.same
    assert (replayed.output, called) == (["sent to Ada", "done"], [])
    assert load_cassette(cassette).input == {"order": "42"}


DRIFT = {
    "another tool": """\
support no longer goes the way of support.json: the code makes another call than the recorded one
  recorded 0/send#1  {"text":"42","to":"Ada"}  (event 8)
  now      0/mail#1  {"text":"42","to":"Ada"}
  → If the change is meant, record the cassette again.""",
    "another address": """\
support no longer goes the way of support.json: the call was made with other arguments
  recorded 0/send#1  {"text":"42","to":"Ada"}  (event 8)
  now      0/send#1  {"text":"42","to":"Grace"}
  → If the change is meant, record the cassette again.""",
    "no mail": """\
support no longer goes the way of support.json: the code no longer makes a recorded call
  recorded 0/send#1  {"text":"42","to":"Ada"}  (event 8)
  → If the change is meant, record the cassette again.""",
    "another mail": """\
support no longer goes the way of support.json: the code makes a call that is not recorded
  now      0/mail#1  {"text":"and you","to":"Grace"}
  → If the change is meant, record the cassette again.""",
    "another word": """\
support no longer goes the way of support.json: it returns something else
  recorded ["sent to Ada","done"]
  now      ["sent to Ada","bye"]
  → If the change is meant, record the cassette again.""",
}


@pytest.mark.store("memory")
@pytest.mark.parametrize("change", DRIFT)
async def test_the_first_step_that_differs(change: str, cassette: Path) -> None:
    called: list[str] = []
    with pytest.raises(Drifted) as caught:
        await replay_cassette(application(called, change=change), cassette)
    assert str(caught.value) == DRIFT[change]
    assert called == [], "what is not recorded is not called either"


@pytest.mark.store("memory")
async def test_the_blobs_that_it_names_are_in_it(tmp_path: Path) -> None:
    body = b"a large picture"
    digest = hashlib.sha256(body).hexdigest()
    app = hf.App()

    @app.tool(effect="read_only")
    async def paint() -> list[str]:
        return [digest, hashlib.sha256(b"no blob").hexdigest()]

    @app.agent
    async def paints() -> list[str]:
        return await paint()

    async with running(app) as process:
        await process.store.blobs.put(body)
        job = await paints.start()
        await job.result()
        made = await record(job.id, tmp_path / "painted.json", store=process.store)
    assert made.blobs == {digest: base64.b64encode(body).decode()}
    assert load_cassette(tmp_path / "painted.json") == made


def forged(told: dict[str, Any]) -> None:
    called = next(event for event in told["events"] if event["type"] == "tool_returned")
    called["body"]["result"] = "sent to nobody"


def shortened(told: dict[str, Any]) -> None:
    del told["events"][2]


def of_the_future(told: dict[str, Any]) -> None:
    told["format"] = "holdfast cassette 9"


def of_nobody(told: dict[str, Any]) -> None:
    told["agent"] = "nobody"


def half(told: dict[str, Any]) -> None:
    del told["events"]


@pytest.mark.store("memory")
@pytest.mark.parametrize(
    "change, error, said",
    [
        (forged, Broken, "was changed: event 9 is not the one that was recorded"),
        (shortened, Broken, "was changed: event 4 is not the one that was recorded"),
        (
            of_the_future,
            InvalidPayload,
            "is 'holdfast cassette 9', and this Holdfast reads 'holdfast cassette 1'",
        ),
        (of_nobody, NotFound, "is of the agent 'nobody', and the application has none of that name"),
        (half, InvalidPayload, "is no cassette: Object missing required field `events`"),
    ],
)
async def test_a_file_that_is_not_what_was_recorded(
    change: Callable[[dict[str, Any]], None], error: type[HoldfastError], said: str, cassette: Path
) -> None:
    told = json.loads(cassette.read_text())
    change(told)
    cassette.write_text(json.dumps(told))
    with pytest.raises(error) as caught:
        await replay_cassette(application([]), cassette)
    assert said in str(caught.value)


async def test_no_file_and_no_json(tmp_path: Path) -> None:
    with pytest.raises(NotFound):
        await replay_cassette(application([]), tmp_path / "gone.json")
    (tmp_path / "text.json").write_text("once upon a time")
    with pytest.raises(InvalidPayload):
        await replay_cassette(application([]), tmp_path / "text.json")


@pytest.mark.store("memory")
async def test_only_a_job_that_is_over(tmp_path: Path) -> None:
    app = application([])
    async with running(app) as process:
        job = await app.agents["support"].start("42")
        with pytest.raises(InvalidMove):
            await record(job, tmp_path / "early.json")
        with pytest.raises(InvalidSetting):
            await record(job.id, tmp_path / "homeless.json")
        with pytest.raises(NotFound):
            await record("job_of_nobody", tmp_path / "nobody.json", store=process.store)
    assert not list(tmp_path.iterdir()), "what cannot be recorded leaves no file"
