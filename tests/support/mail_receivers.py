"""The world outside, with a memory of its own: the only witness of what was done twice.

Our own database cannot tell whether a mail was sent a second time; the receiver can. So each receiver here keeps an
append-only log, and tests count there.
"""

from __future__ import annotations

from typing import Any

from holdfast.engine.durable_call import ProbeResult
from holdfast.errors import Refused
from holdfast.model.side_effects import ProbeAnswer


class PlainMail:
    """Sends whatever it is given, every time: nobody can ask it anything afterwards."""

    def __init__(self) -> None:
        self.log: list[dict[str, Any]] = []

    async def send(self, key: str, text: str) -> dict[str, Any]:
        self.log.append({"key": key, "text": text})
        return {"receipt": len(self.log)}


class KeyedMail(PlainMail):
    """Remembers keys: the same one again gets the first answer, and no second mail."""

    async def send(self, key: str, text: str) -> dict[str, Any]:
        for number, mail in enumerate(self.log, 1):
            if mail["key"] == key:
                return {"receipt": number}
        return await super().send(key, text)


class ProbedMail(PlainMail):
    """Can be asked whether a key has been sent."""

    async def probe(self, key: str, _args: Any) -> ProbeResult:
        for number, mail in enumerate(self.log, 1):
            if mail["key"] == key:
                return ProbeResult(ProbeAnswer.HAPPENED, {"receipt": number})
        return ProbeResult(ProbeAnswer.NOT_HAPPENED)


class DraftMail(PlainMail):
    """Drafts can be made any number of times; each can be sent once, and is gone then."""

    def __init__(self) -> None:
        super().__init__()
        self.drafts: dict[str, str] = {}
        self._sent: dict[str, int] = {}

    async def draft(self, key: str, text: str) -> str:
        self.drafts.setdefault(key, text)
        return key

    async def send(self, key: str, text: str) -> dict[str, Any]:
        """`text` is the draft's id here."""
        if text in self._sent:
            return {"receipt": self._sent[text]}
        if text not in self.drafts:
            msg = f"there is no draft {text!r}"
            raise Refused(msg)
        receipt = await super().send(key, self.drafts.pop(text))
        self._sent[text] = receipt["receipt"]
        return receipt
