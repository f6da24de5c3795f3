"""S9: secrets by reference. Code names one, the worker looks it up when a call fires, and nothing stored holds it."""

from __future__ import annotations

import json
import logging
from pathlib import Path
from typing import Any

import msgspec
import pytest

import holdfast as hf
from holdfast.agents.secrets import resolve_references
from holdfast.agents.toolbox import http_tools, shell_tool
from holdfast.engine.replay_check import replay
from holdfast.errors import CallFailed, InvalidPayload, InvalidSetting, JobHeld
from holdfast.model.events import ToolCalled
from holdfast.model.hash_chain import unseal
from holdfast.model.redaction import redact
from holdfast.runtime.log_redaction import install_redaction
from holdfast.store.clock import SystemClock
from tests.agents.waiting import waits_for
from tests.agents.web import serving

pytestmark = pytest.mark.store("sqlite")

VALUE = "tok-5f1d-violet-anchor-77"
STRIPE = hf.secret("stripe-key")


@pytest.fixture(autouse=True)
def stripe(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOLDFAST_SECRET_STRIPE_KEY", VALUE)


@pytest.fixture
def app(tmp_path: Path) -> hf.App:
    return hf.App(store=f"sqlite:///{tmp_path / 'test.db'}")


def test_a_reference_shows_itself_and_not_its_value() -> None:
    token = hf.secret("stripe-key")
    assert str(token) == repr(token) == f"{token}" == "secret://stripe-key"
    assert token.reveal() == VALUE
    assert VALUE not in repr(vars(type(token)))
    assert redact(f"it was {VALUE}") == "it was [redacted:stripe_key]"


@pytest.mark.parametrize("name", ["", "a b", "../x", ".hidden", "a/b", VALUE * 5])
def test_names_that_are_none(name: str) -> None:
    with pytest.raises(InvalidSetting):
        hf.secret(name)


async def test_a_tool_gets_the_value_and_the_journal_the_reference(app: hf.App) -> None:
    used: list[str] = []

    @app.tool(effect="idempotent", key_lifetime="1h")
    async def charge(cents: int, *, key: hf.Key = hf.KEY, token: hf.Secret = STRIPE) -> str:
        used.append(token.reveal())
        return f"charged {cents} with {token} {token.reveal()}"

    @app.agent
    async def shop(cents: int) -> str:
        return await charge(cents)

    async with app.running() as process:
        job = await shop.start(5, id="shop")
        assert await job.result() == "charged 5 with secret://stripe-key [redacted:stripe_key]"
        events = [unseal(one) for one in await process.store.journal.read("shop")]
        (called,) = [event for event in events if isinstance(event, ToolCalled)]
        assert called.args == {"cents": 5, "token": "secret://stripe-key"}
        assert (await replay(process.store, "shop", shop.program, clock=SystemClock())).same
    assert used == [VALUE]


async def test_code_goes_on_with_what_is_recorded(app: hf.App) -> None:
    """A result, an error and a caught error: the same text the first time as in every replay."""
    heard: list[Any] = []

    @app.tool(effect="read_only")
    async def leaks() -> dict[str, str]:
        return {"token": VALUE}

    @app.tool(effect="read_only")
    async def fails() -> str:
        raise ValueError(f"refused: {VALUE}", VALUE)

    @app.agent
    async def careless() -> str:
        heard.append(await leaks())
        try:
            await fails()
        except ValueError as error:
            heard.append([str(error), *error.args])
        return str(heard[-2:])

    async with app.running() as process:
        job = await careless.start(id="careless")
        await job.result()
        assert (await replay(process.store, "careless", careless.program, clock=SystemClock())).same
    live, again = heard[:2], heard[2:]
    assert (
        live
        == again
        == [
            {"token": "[redacted:stripe_key]"},
            [
                "('refused: [redacted:stripe_key]', '[redacted:stripe_key]')",
                "refused: [redacted:stripe_key]",
                "[redacted:stripe_key]",
            ],
        ]
    )


async def test_arguments_with_a_secret_are_found_again_after_it_was_changed(
    app: hf.App, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The digest is over what is stored, so an effect that has happened is not taken for another one."""
    sent: list[str] = []

    @app.tool(effect="unsafe")
    async def send(token: str) -> str:
        sent.append(token)
        return "sent"

    @app.agent
    async def sender() -> str:
        await send(hf.secret("stripe-key").reveal())
        return str(await hf.wait("go"))

    async with app.running() as process:
        job = await sender.start(id="sender")
        await waits_for(process, "sender", "signal")
        monkeypatch.setenv("HOLDFAST_SECRET_STRIPE_KEY", "another-value-entirely-42")
        install_redaction()
        await job.signal("go", "on")
        assert await job.result() == "on"
    assert sent == [VALUE]


async def test_a_model_cannot_choose_a_secret(app: hf.App) -> None:
    @app.tool(effect="read_only")
    async def charge(cents: int, token: hf.Secret = STRIPE) -> int:
        """Charge."""
        return cents

    (told,) = hf.schemas(charge)
    assert list(told["input_schema"]["properties"]) == ["cents"]  # type: ignore[call-overload]
    with pytest.raises(InvalidPayload, match="that a caller may give"):
        charge.check_arguments({"cents": 1, "token": "secret://admin"})
    with pytest.raises(InvalidPayload, match="that a caller may give"):
        charge.admit({"cents": 1, "token": "secret://admin"}, frozenset())


async def test_a_reference_in_an_argument_stays_text(app: hf.App) -> None:
    @app.tool(effect="read_only")
    async def echo(text: str) -> str:
        return text

    @app.agent
    async def parrot() -> str:
        return await echo("secret://stripe-key")

    async with app.running():
        assert await parrot() == "secret://stripe-key"


async def test_headers_and_environments_are_looked_up_for_each_call(tmp_path: Path) -> None:
    with serving() as web:
        get, *_ = http_tools(
            allow=[f"127.0.0.1:{web.port}"], headers={"Authorization": f"Bearer {hf.secret('stripe-key')}"}
        )
        await get(f"http://127.0.0.1:{web.port}/x")
        assert web.asked[0][2]["authorization"] == f"Bearer {VALUE}"
        with pytest.raises(hf.Refused, match="no secret 'missing'"):
            await http_tools(allow=[f"127.0.0.1:{web.port}"], headers={"X": hf.secret("missing")})[0](
                f"http://127.0.0.1:{web.port}/y"
            )
        assert len(web.asked) == 1
    shell = shell_tool(tmp_path, env={"TOKEN": hf.secret("stripe-key")})
    ran = await shell('printf %s "$TOKEN"; env | grep -c HOLDFAST_')
    assert (ran.stdout, ran.status) == (f"{VALUE}0\n", 1)


def test_files_and_other_sources(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "db-password").write_text("file-value-0123456789\n", encoding="utf-8")
    monkeypatch.setenv("HOLDFAST_SECRETS_DIR", str(tmp_path))
    assert hf.secret("db-password").reveal() == "file-value-0123456789"

    class Vault:
        def find(self, name: str) -> str | None:
            return "from-the-vault-123456" if name == "db-password" else None

        def list_names(self) -> list[str]:
            return ["db-password"]

    hf.use_secrets(Vault())
    assert hf.secret("db-password").reveal() == "from-the-vault-123456"
    assert resolve_references({"A": "x secret://stripe-key."}) == {"A": f"x {VALUE}."}
    install_redaction()
    for value in ("from-the-vault-123456", "file-value-0123456789"):
        assert redact(value) == "[redacted:db_password]", "a value that was given before is still a secret"
    with pytest.raises(InvalidSetting, match="HOLDFAST_REDACT"):
        install_redaction(environment={"HOLDFAST_REDACT": "everything"})


def test_log_lines_and_tracebacks(caplog: pytest.LogCaptureFixture) -> None:
    install_redaction("postgresql://ada:store-pass-word-9@db/x")
    log = logging.getLogger("holdfast.test")
    try:
        raise ValueError(f"token {VALUE}")
    except ValueError:
        log.exception("with %s and %s", VALUE, "store-pass-word-9")
    assert VALUE not in caplog.text
    assert "store-pass-word-9" not in caplog.text
    assert "ValueError: token [redacted:stripe_key]" in caplog.text
    assert "with [redacted:stripe_key] and [redacted:store_password]" in caplog.text


async def test_a_failed_job_tells_no_secret(app: hf.App, caplog: pytest.LogCaptureFixture) -> None:
    @app.agent
    async def hopeless() -> None:
        raise RuntimeError(f"cannot use {VALUE}")

    async with app.running() as process:
        job = await hopeless.start(id="hopeless")
        with pytest.raises((JobHeld, CallFailed)) as held:
            await job.result()
        assert VALUE not in str(held.value)
        stored = json.dumps(
            [msgspec.to_builtins(unseal(one)) for one in await process.store.journal.read("hopeless")],
            default=str,
        )
    assert "cannot use [redacted:stripe_key]" in stored
    assert VALUE not in stored
    assert VALUE not in caplog.text
