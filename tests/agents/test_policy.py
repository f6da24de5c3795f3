"""The policy file: rules by name, seed spellings, and errors that say where."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import holdfast as hf
from holdfast.engine.durable_call import CallPolicy
from holdfast.errors import InvalidSetting
from holdfast.model.side_effects import Effect
from holdfast.model.time import DAY, HOUR, SECOND
from tests.agents.waiting import waits_for

POLICY = """
[tools."github.create_*"]
class = "external"
approve = true
approval_lifetime = "1h"

[tools."mail.send"]
class = "memory"
key_argument = "idempotency_key"
key_lifetime = "24h"
timeout = 90

[tools."files.*"]
class = "local"
receiver_delay = "5s"

[tools."*"]
class = "read_only"
approve = false
"""


@pytest.mark.parametrize(
    "name, effect, rule",
    [
        ("github.create_issue", Effect.UNSAFE, "github.create_*"),
        ("github.list", Effect.READ_ONLY, "*"),
        ("mail.send", Effect.IDEMPOTENT, "mail.send"),
        ("mail.send_all", Effect.READ_ONLY, "*"),
        ("files.write", Effect.VERIFIABLE, "files.*"),
        ("GITHUB.create_issue", Effect.READ_ONLY, "*"),
    ],
)
def test_the_first_rule_that_fits_counts(name: str, effect: Effect, rule: str) -> None:
    found = hf.Policy.parse(POLICY).find_rule(name)
    assert found is not None
    assert (found.effect, found.pattern) == (effect, rule)


def test_a_rule_changes_what_it_speaks_of_and_nothing_else() -> None:
    policy = hf.Policy.parse(POLICY)
    before = CallPolicy(effect=Effect.READ_ONLY, approve=lambda _args: True, longest_call_us=7 * SECOND)
    named: list[hf.Tool[..., Any]] = [
        hf.Tool(print, name=name, terms=before)
        for name in ("mail.send", "github.create_issue", "other", "files.x")
    ]
    mail, issue, other, file = (tool.terms for tool in policy.over(named))
    assert (mail.effect, mail.key_lifetime_us, mail.longest_call_us) == (Effect.IDEMPOTENT, DAY, 90 * SECOND)
    assert mail.approve is before.approve
    assert (issue.effect, issue.approval_lifetime_us, issue.longest_call_us) == (
        Effect.UNSAFE,
        HOUR,
        7 * SECOND,
    )
    assert issue.approve is not None
    assert issue.approve({})
    assert other.approve is None
    assert (file.receiver_delay_us, file.approval_lifetime_us) == (5 * SECOND, 7 * DAY)
    assert [tool.terms for tool in named] == [before] * 4, "the tools themselves are as they were"


def test_a_tool_that_no_rule_names_stays_as_it_is() -> None:
    tool: hf.Tool[..., Any] = hf.Tool(print, name="print", terms=CallPolicy())
    assert hf.Policy.parse('[tools."mail.*"]\nclass = "read_only"').over([tool]) == [tool]
    assert hf.Policy.parse("").over([tool]) == [tool]
    assert hf.Policy().find_rule("print") is None


@pytest.mark.parametrize(
    "text, says",
    [
        ("[tools", "is no TOML"),
        ("tools = 5", "tools is no table"),
        ("[tool.x]", "has 'tool' beside its tools"),
        ('tools.x = "unsafe"', "tools.'x' is no table"),
        ('[tools."x"]\nklass = "unsafe"', "tools.'x' has no setting 'klass'"),
        ('[tools."x"]\nclass = "harmless"', "tools.'x': class: 'harmless' is not a side-effect class"),
        ('[tools."x"]\nclass = 5', "class = 5 is of the wrong type"),
        ('[tools."x"]\napprove = "yes"', "approve = 'yes' is of the wrong type"),
        ('[tools."x"]\ntimeout = true', "timeout = True is of the wrong type"),
        ('[tools."x"]\nkey_lifetime = "soon"', "key_lifetime: 'soon' is not a duration"),
        (
            '[tools."x"]\nclass = "unsafe"\nkey_lifetime = "1h"',
            "a key_lifetime for a class that sends no key",
        ),
        ("[tools.x]\n[tools.x]", "is no TOML"),
    ],
)
def test_a_bad_file_says_what_is_wrong_and_where(tmp_path: Path, text: str, says: str) -> None:
    path = tmp_path / "tools.toml"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(InvalidSetting) as caught:
        hf.Policy.read(path)
    assert says in str(caught.value)
    assert str(path) in str(caught.value)
    assert "sqlite" not in caught.value.hint, "it is about this file"


def test_a_file_that_cannot_be_read(tmp_path: Path) -> None:
    (tmp_path / "latin.toml").write_bytes(b"\xe9")
    for name in ("nothing.toml", "latin.toml"):
        with pytest.raises(InvalidSetting, match="cannot be read"):
            hf.Policy.read(tmp_path / name)


@pytest.mark.store("sqlite")
async def test_a_ruled_tool_is_held_where_the_plain_one_is_repeated(tmp_path: Path) -> None:
    """Goal: a policy is what recovery goes by. Method: a tool that breaks off, declared read-only and ruled unsafe: the
    job is held for a person and the tool is not called again."""
    app = hf.App(store=f"sqlite:///{tmp_path / 'test.db'}")
    called: list[str] = []

    @app.tool(effect="read_only")
    async def wire() -> str:
        called.append("wire")
        raise ConnectionResetError("gone")

    (ruled,) = hf.Policy.parse('[tools.wire]\nclass = "external"').over([wire])

    @app.agent
    async def program() -> str:
        try:
            return str(await ruled())
        except ConnectionResetError:
            return "failed"

    async with app.running() as process:
        job = await program.start()
        await waits_for(process, job.id, "reconcile")
    assert called == ["wire"]
