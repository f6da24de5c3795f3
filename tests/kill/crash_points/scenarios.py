"""The scenarios of seed 001, small enough to be cut off everywhere."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Any

from holdfast.engine.durable_call import READS, CallPolicy, DurableCall, ProbeResult
from holdfast.engine.execution import Execution
from holdfast.engine.runner_config import Program
from holdfast.model.side_effects import Effect, ProbeAnswer
from holdfast.model.time import HOUR, SECOND
from tests.kill.crash_points.enumeration import Scenario
from tests.support.mail_receivers import DraftMail, KeyedMail, PlainMail, ProbedMail

CALL = 20 * SECOND
KEYED = CallPolicy(effect=Effect.IDEMPOTENT, key_lifetime_us=24 * HOUR, longest_call_us=CALL)
NATURAL = CallPolicy(effect=Effect.IDEMPOTENT, longest_call_us=CALL)


class Forgetful(KeyedMail):
    """Remembers keys for a day."""

    def __init__(self) -> None:
        super().__init__()
        self.loop: asyncio.AbstractEventLoop | None = None
        self._at: list[float] = []

    async def send(self, key: str, text: str) -> dict[str, Any]:
        assert self.loop is not None
        for number, mail in enumerate(self.log):
            if mail["key"] == key and self.loop.time() < self._at[number] + 24 * 3600:
                return {"receipt": number + 1}
        self._at.append(self.loop.time())
        return await PlainMail.send(self, key, text)


class Mail:
    """Write a text, mail it, by one of four kinds of receiver."""

    def __init__(self, kind: str, *, may_ask: bool = False, mail: PlainMail | None = None) -> None:
        self.kind = kind
        self.may_ask = may_ask or kind == "plain"
        receivers = {"keyed": Forgetful, "draft": DraftMail, "probe": ProbedMail, "plain": PlainMail}
        self.mail = receivers[kind]() if mail is None else mail
        self.programs: Mapping[str, Program] = {"mail": self._program}

    def clocked(self, loop: asyncio.AbstractEventLoop) -> None:
        if isinstance(self.mail, Forgetful):
            self.mail.loop = loop

    def times(self) -> int:
        return len(self.mail.log)

    def result(self, tool: str, key: str) -> Any:
        if tool == "draft_mail":
            assert isinstance(self.mail, DraftMail)
            return key if key in self.mail.drafts or self.mail.log else None
        for number, mail in enumerate(self.mail.log, 1):
            if mail["key"] == key:
                return {"receipt": number}
        return None

    @property
    def _terms(self) -> CallPolicy:
        if isinstance(self.mail, ProbedMail):
            return CallPolicy(effect=Effect.VERIFIABLE, probe=self.mail.probe, longest_call_us=CALL)
        return CallPolicy(longest_call_us=CALL) if self.kind == "plain" else KEYED

    async def _program(self, drive: Execution, text: Any) -> Any:
        async def write(_key: str) -> str:
            return f"Dear {text}"

        async def draft(key: str) -> str:
            assert isinstance(self.mail, DraftMail)
            return await self.mail.draft(key, body)

        async def send(key: str) -> Any:
            return await self.mail.send(key, body)

        body = await drive.call(DurableCall("write", [text], write, READS))
        if self.kind == "draft":
            body = await drive.call(DurableCall("draft_mail", [body], draft, KEYED))
        return await drive.call(DurableCall("send_mail", [body], send, self._terms))


class Report:
    """Render a PDF, upload it, mail its address: a read, an effect that is idempotent by nature, one with a key."""

    may_ask = False

    def __init__(self) -> None:
        self.mail = KeyedMail()
        self.files: dict[str, str] = {}
        self.programs: Mapping[str, Program] = {"report": self._program}

    def clocked(self, loop: asyncio.AbstractEventLoop) -> None:
        pass

    def times(self) -> int:
        assert len(self.files) <= 1, "two files"
        return len(self.mail.log)

    def result(self, tool: str, key: str) -> Any:
        raise AssertionError("nobody has to be asked")

    async def _program(self, drive: Execution, text: Any) -> Any:
        async def render(_key: str) -> str:
            return f"%PDF {text}"

        async def upload(_key: str) -> str:
            self.files["report.pdf"] = pdf
            return "report.pdf"

        async def send(key: str) -> Any:
            return await self.mail.send(key, place)

        pdf = await drive.call(DurableCall("render_pdf", [text], render, READS))
        place = await drive.call(DurableCall("upload", [pdf], upload, NATURAL))
        return await drive.call(DurableCall("send_mail", [place], send, KEYED))


class SubAgent:
    """A task given to an agent that is a black box, but leaves an artefact that can be looked up."""

    may_ask = False

    def __init__(self) -> None:
        self.started: list[str] = []
        self.artefacts: dict[str, str] = {}
        self.programs: Mapping[str, Program] = {"delegate": self._program}

    def clocked(self, loop: asyncio.AbstractEventLoop) -> None:
        pass

    def times(self) -> int:
        return len(self.started)

    def result(self, tool: str, key: str) -> Any:
        raise AssertionError("nobody has to be asked")

    async def _look_up(self, key: str, _args: Any) -> ProbeResult:
        if key in self.artefacts:
            return ProbeResult(ProbeAnswer.HAPPENED, self.artefacts[key])
        return ProbeResult(ProbeAnswer.NOT_HAPPENED)

    async def _program(self, drive: Execution, task: Any) -> Any:
        async def delegate(key: str) -> str:
            self.started.append(key)
            self.artefacts[key] = f"{task}, researched"
            return self.artefacts[key]

        async def read(_key: str) -> str:
            return str(found).upper()

        terms = CallPolicy(effect=Effect.VERIFIABLE, probe=self._look_up, longest_call_us=CALL)
        found = await drive.call(DurableCall("research", [task], delegate, terms))
        return await drive.call(DurableCall("summarise", [found], read, READS))


class Reading:
    """Reads only: they may run again, and the recorded answer is the answer."""

    may_ask = False

    def __init__(self) -> None:
        self.looks = 0
        self.programs: Mapping[str, Program] = {"read": self._program}

    def clocked(self, loop: asyncio.AbstractEventLoop) -> None:
        pass

    def times(self) -> int:
        assert self.looks >= 2, "both were read"
        return 1

    def result(self, tool: str, key: str) -> Any:
        raise AssertionError("nobody has to be asked")

    async def _program(self, drive: Execution, _given: Any) -> Any:
        async def look(_key: str) -> int:
            self.looks += 1
            return self.looks

        first = await drive.call(DurableCall("look", [1], look, READS))
        second = await drive.call(DurableCall("look", [2], look, READS))
        assert second > first
        return [first, second]


MAILS = ("keyed", "draft", "probe", "plain")
SCENARIOS: dict[str, Callable[[], Scenario]] = {
    "keyed": lambda: Mail("keyed"),
    "draft": lambda: Mail("draft"),
    "probe": lambda: Mail("probe"),
    "plain": lambda: Mail("plain"),
    "report": Report,
    "sub-agent": SubAgent,
    "reading": Reading,
}
