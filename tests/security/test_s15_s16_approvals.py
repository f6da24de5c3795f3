"""S15, S16: what a policy forbids no model gets, and a person who is asked sees exactly what would be done."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

import holdfast as hf
from holdfast.cli.output import to_json
from holdfast.engine.durable_call import CallPolicy
from holdfast.errors import InvalidSetting
from holdfast.model.side_effects import Effect
from tests.agents.waiting import waits_for
from tests.cli.conftest import CommandDesk, desk

__all__ = ["desk"]

HIDDEN = "pay\u202eyob\u200b to \U000e0041\U000e0042 mallory\ufeff \x1b]0;title\x07 \u00ad\u2066!"


def tool_of(name: str, effect: Effect) -> hf.Tool[..., Any]:
    return hf.Tool(print, name=name, terms=CallPolicy(effect=effect))


def test_unsafe_tools_wait_for_a_person_or_are_refused_where_the_policy_says_so() -> None:
    tools = [tool_of(name, Effect.UNSAFE) for name in ("wire", "free", "never")]
    rules = "[tools.free]\napprove = false\n[tools.never]\ndeny = true\n"
    for unsafe, leave in (("allow", None), ("approve", True), ("deny", hf.Denied)):
        wire, free, never = hf.Policy.parse(f'unsafe = "{unsafe}"\n{rules}').over(tools)
        assert free.terms.approve is None
        _judged(wire.terms, leave)
        _judged(never.terms, hf.Denied)
    (read,) = hf.Policy(unsafe="deny").over([tool_of("look", Effect.READ_ONLY)])
    assert read.terms.approve is None
    with pytest.raises(InvalidSetting, match="unsafe = 'perhaps'"):
        hf.Policy.parse('unsafe = "perhaps"')


def _judged(terms: CallPolicy, leave: Any) -> None:
    if leave is None:
        assert terms.approve is None
        return
    assert terms.approve is not None
    if leave is True:
        assert terms.approve({})
    else:
        with pytest.raises(leave, match="policy"):
            terms.approve({})


@pytest.mark.store("sqlite")
async def test_a_denied_tool_is_not_called(tmp_path: Path) -> None:
    app = hf.App(store=f"sqlite:///{tmp_path / 'test.db'}")
    called: list[str] = []

    @app.tool(effect="unsafe")
    async def wire(to: str) -> str:
        called.append(to)
        return "sent"

    (ruled,) = hf.Policy(unsafe="deny").over([wire])

    @app.agent
    async def payer() -> str:
        try:
            return str(await ruled("mallory"))
        except hf.Denied as error:
            return str(error)

    async with app.running():
        assert "policy" in await payer()
    assert called == []


@pytest.mark.store("sqlite")
def test_a_person_sees_every_character(desk: CommandDesk) -> None:
    app = hf.App(store=desk.where)
    long = "x" * 3000 + "the end"

    @app.tool(effect="unsafe", approve=True)
    async def wire(to: str, note: str) -> str:
        return "sent"

    @app.agent
    async def payer() -> str:
        return await wire(HIDDEN, long)

    async def ask() -> str:
        async with app.running() as process:
            job = await payer.start(id="payer")
            await waits_for(process, "payer", "approval")
            return job.id

    asyncio.run(ask())
    shown = desk.type("job", "payer").out
    assert to_json(HIDDEN)[1:-1] in shown
    for escape in ("\\u202e", "\\u200b", "\\udb40\\udc41", "\\ufeff", "\\u001b", "\\u2066", "\\u00ad"):
        assert escape in shown
    assert "the end" in shown, "arguments are not cut short where somebody is asked to agree to them"
    assert all(character.isprintable() or character == "\n" for character in shown)
    assert "digest" in shown


def test_json_that_is_printed_reads_back_the_same() -> None:
    assert json.loads(to_json([HIDDEN, "\U0001f33f", "é"])) == [HIDDEN, "\U0001f33f", "é"]
