"""The built-in script: the model of an assistant without a configured one. It answers, remembers, and says how to
choose a model."""

from __future__ import annotations

from typing import Final

from holdfast.agents.models.script import Script, ScriptLine

_CHOOSE: Final = 'I am a script, not a model. Choose one with model="anthropic:…" or model="openai:…".'

BUILT_IN: Final = Script(
    (
        ScriptLine(turn=0, text=f"You said: {{said}}. {_CHOOSE}"),
        ScriptLine(
            text="You said: {said}. Before that, {turn} times already, we spoke; the first time you said: {first}."
        ),
    )
)
