"""Real processes: a quick program, driven by one that dies as ordered, and then by another with another hash seed.

    python -m tests.kill.programs.process SOURCE STORE LOG LOOP

drives the program to its end on asyncio's loop, on uvloop, or with eager tasks, and prints how it ended. It dies where
HOLDFAST_TEST_CRASH_AT says. Its receivers are a file of lines: what arrived is in it, whoever dies.
"""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import json
import os
import sys
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import anyio

import holdfast as hf
from holdfast.model.events import StepFinished
from holdfast.model.hash_chain import unseal
from holdfast.model.ids import RandomIds
from holdfast.model.jobs import JobFilter
from holdfast.model.states import TERMINAL
from holdfast.runtime.store_opener import open_store
from tests.kill.programs import oracle
from tests.kill.programs.generator import generate
from tests.kill.programs.oracle import Outcome
from tests.kill.programs.person import Person
from tests.kill.programs.receivers import (
    BAD,
    EFFECTS,
    READS,
    REFUSED,
    Receivers,
    Request,
    answer_of,
    label_of,
)
from tests.kill.programs.variants import FASTER, hurry

JOB: Final = "program"
DIED: Final = 137
PATIENCE_S: Final = 30.0
CALLS_MAX: Final = 8
LOOPS: Final = ("asyncio", "uvloop", *(("eager",) if sys.version_info >= (3, 12) else ()))


# ── a process that drives the program ─────────────────────────────────────────────────────────────


class Log:
    """Receivers that only write lines: tool, label, token, key, process. A line is there as soon as it is written."""

    def __init__(self, path: Path) -> None:
        self._file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT)

    async def request(self, tool: str, label: str, token: str, key: str, seconds: float) -> str:
        there, back = (
            latency / FASTER for latency in Receivers(asyncio.ensure_future).latencies_of(tool, label)
        )
        await asyncio.sleep(there)
        if label.startswith(REFUSED):
            raise hf.Refused(label)
        line = json.dumps([tool, label, token, key, os.getpid()])
        os.write(self._file, f"{line}\n".encode())
        await asyncio.sleep(back + seconds)
        if tool in READS and label.startswith(BAD):
            raise LookupError(label)
        return answer_of(label)


def load(source: str, where: str, log: Log) -> hf.App:
    """The program as an application on this store."""
    app = hf.App(where)
    names: dict[str, Any] = {
        "asyncio": asyncio,
        "anyio": anyio,
        "contextlib": contextlib,
        "hf": hf,
        "app": app,
    }
    names |= {"__name__": "program", "crunch": answer_of, "contextvars": contextvars}
    for tool, effect in EFFECTS.items():

        async def read(label: str, token: str = "", seconds: float = 0.0, *, tool: str = tool) -> str:
            return await log.request(tool, label, token, "", seconds)

        async def act(label: str, token: str = "", *, tool: str = tool, key: hf.Key = hf.KEY) -> str:
            return await log.request(tool, label, token, key, 0.0)

        if tool in READS:
            names[tool] = app.tool(effect="read_only", name=tool)(read)
        elif effect == "idempotent":
            approve = True if tool == "wire" else None
            names[tool] = app.tool(effect=effect, name=tool, key_lifetime="24h", approve=approve)(act)
        else:
            names[tool] = app.tool(name=tool)(act)
    exec(compile(source, "<program>", "exec"), names)  # noqa: S102 - it is ours
    return app


async def drive(source: str, where: str, log: Log) -> None:
    """Drive the program to its end, and print how it ended."""
    app = load(source, where, log)
    async with app.running():
        job = await app.agents["main"].start(id=JOB)
        try:
            ending = {"output": await job.result()}
        except hf.HoldfastError as error:
            ending = {"error": str(error)}
    print(json.dumps(ending))


def main(source: str, where: str, log: str, loop: str) -> None:
    factory: Any = None
    if loop == "uvloop":
        import uvloop

        factory = uvloop.new_event_loop
    with asyncio.Runner(loop_factory=factory) as runner:
        if loop == "eager":
            runner.get_loop().set_task_factory(getattr(asyncio, "eager_task_factory"))  # noqa: B009 - from 3.12 on
        runner.run(drive(Path(source).read_text(encoding="utf-8"), where, Log(Path(log))))


# ── the one who starts and judges them ────────────────────────────────────────────────────────────


@dataclass
class Brief:
    """A program that is quick in real time, and what must come of it."""

    number: int
    source: str
    outcome: Outcome


def find_brief(number: int) -> Brief:
    """The quick program with this number, without verifiable calls: their recovery waits for a minute."""
    for attempt in range(1000):
        source = generate(number, attempt, quick=True)
        if "book(" not in source and "llm." not in source and 2 <= oracle.run(source).calls <= CALLS_MAX:
            outcome = oracle.decide(source)
            if outcome.error is None:
                return Brief(number, hurry(source), outcome)
    msg = f"no quick program for number {number}"
    raise AssertionError(msg)


class Crew:
    """Plays quick programs in processes, on one database."""

    def __init__(self, folder: Path, where: str) -> None:
        self._folder = folder
        self._where = where
        self._log = folder / "receivers.log"
        self._source = folder / "program.py"

    async def play(self, brief: Brief, crash_at: str, loop: str) -> list[str]:
        """Drive the program by a process that dies there, and by another; what is wrong in the end."""
        self._source.write_text(brief.source, encoding="utf-8")
        self._log.write_text("")
        first = await self._run(loop, {"HOLDFAST_TEST_CRASH_AT": crash_at, "PYTHONHASHSEED": "1"})
        if first[0] not in {0, DIED}:
            return [f"the first process ended with {first[0]}: {first[2]}"]
        finished, before = await self._finished(), len(self._lines())
        code, out, complaints = await self._run(loop, {"PYTHONHASHSEED": "2"})
        if code != 0:
            return [f"the second process ended with {code}: {complaints}"]
        return list(self._judge(brief.outcome, json.loads(out), finished, before))

    def _judge(
        self, outcome: Outcome, ending: dict[str, Any], finished: Counter[str], before: int
    ) -> Iterator[str]:
        if ending.get("output", ending) != outcome.output:
            yield f"ended with {ending} instead of {outcome.output}"
        receivers = Receivers(asyncio.ensure_future, requests=self._lines())
        for effect, expected in outcome.done.items():
            if receivers.done(effect) != expected:
                yield f"{effect}: {receivers.done(effect)} instead of {expected}"
        again = Counter(one.label for one in self._lines()[before:] if one.tool in READS)
        for label, times in finished.items():
            if times + again[label] > outcome.reads[label]:
                yield f"finished and made again: {label}"

    def _lines(self) -> list[Request]:
        lines = map(json.loads, self._log.read_text(encoding="utf-8").splitlines())
        return [
            Request(tool, label, token, key, nth, str(pid), arrived=True, ended=True, result=answer_of(label))
            for nth, (tool, label, token, key, pid) in enumerate(lines)
        ]

    async def _finished(self) -> Counter[str]:
        """The reads that were recorded."""
        store = await open_store(self._where)
        try:
            facts = [unseal(one) for one in await store.journal.read(JOB)]
        finally:
            await store.close()
        labels = (label_of(fact.result) for fact in facts if isinstance(fact, StepFinished))
        return Counter(label for label in labels if label is not None)

    async def _run(self, loop: str, environ: dict[str, str]) -> tuple[int, str, str]:
        """One process, to its end; whatever its job asks is answered meanwhile."""
        pipe = asyncio.subprocess.PIPE
        process = await asyncio.create_subprocess_exec(
            *(
                sys.executable,
                "-m",
                "tests.kill.programs.process",
                self._source,
                self._where,
                self._log,
                loop,
            ),
            stdout=pipe,
            stderr=pipe,
            env={**os.environ, **environ},
        )
        answering = asyncio.create_task(self._answer())
        try:
            async with asyncio.timeout(PATIENCE_S):
                out, complaints = await process.communicate()
        except TimeoutError:
            process.kill()
            out, complaints = await process.communicate()
            return -1, out.decode(), f"it did not end within {PATIENCE_S} s: {complaints.decode()}"
        finally:
            answering.cancel()
            await asyncio.wait([answering])
        assert process.returncode is not None
        return process.returncode, out.decode(), complaints.decode()

    async def _answer(self) -> None:
        """A person who looks in every now and then."""
        store = await open_store(self._where, ids=RandomIds())
        began, signals = time.monotonic(), self._signals()
        person = Person(store, Receivers(asyncio.ensure_future))
        try:
            while True:
                await asyncio.sleep(0.05)
                person.receivers.requests = self._lines()
                records = await store.jobs.list(JobFilter(), limit=100)
                alive = [record.job_id for record in records if record.status not in TERMINAL]
                await person.act([await store.jobs.head(job_id) for job_id in alive])
                for name, at in signals.items():
                    if JOB in alive and time.monotonic() - began >= at:
                        await person.signal(JOB, name)
        finally:
            await store.close()

    def _signals(self) -> dict[str, float]:
        first, _, _ = self._source.read_text(encoding="utf-8").partition("\n")
        name, _, value = first.partition(" = ")
        signals: dict[str, float] = json.loads(value.replace("'", '"')) if name == "SIGNALS" else {}
        return signals


if __name__ == "__main__":
    main(*sys.argv[1:])
