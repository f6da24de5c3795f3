"""Processes that die at an ordered point, and others that go on with their jobs.

    python -m tests.kill.crash_points.crew STORE FOLDER

A warm parent forks, and holds no store open. For each case one process with the orders of the case in its environment
drives the case's job until it dies, and then another without orders drives it to its end; whatever waits for a person
gets the word of somebody who looked into the receiver's log. The parent prints one line of JSON: for each case how the
first process ended, and what the second one found.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import os
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

import msgspec

from holdfast.engine.crash_points import Point
from holdfast.engine.durable_call import READS, CallPolicy, DurableCall
from holdfast.engine.execution import Execution
from holdfast.engine.runner_config import Program
from holdfast.model.ids import RandomIds
from holdfast.model.jobs import JobFilter, JobRecord
from holdfast.model.mailbox import MailDraft
from holdfast.model.side_effects import CallStatus, Effect
from holdfast.model.states import TERMINAL, MailKind, WaitReason
from holdfast.model.time import HOUR, MILLISECOND
from holdfast.runtime.process import Process, open_process
from tests.kill.crew import forked, warmed_up
from tests.support.fixtures.file_receivers import ADAPTERS, FiledMail

AT_ONCE: Final = 6
"""Processes at a time: enough that one works while another waits."""

STORE_POINTS: Final = (
    "leases.claim:before",
    "leases.claim:after",
    *(f"journal.append_many:{side}#{nth}" for nth in (1, 2, 3, 4) for side in ("before", "after")),
    "before_intent",
    "after_intent_before_call#2",
    "after_tool_success_before_receipt#2",
    "after_ledger_mark_succeeded#2",
)
"""Points of the store, and points around effects that have nothing to do with mail."""


class Case(msgspec.Struct, frozen=True):
    """Which mail service, and where the first process dies."""

    adapter: str
    orders: dict[str, str]

    @property
    def kind(self) -> str:
        return "/".join([self.adapter, *self.orders.values()])


def _cases() -> Iterator[Case]:
    for adapter, stage in itertools.product(ADAPTERS, Point):
        orders = {"HOLDFAST_TEST_CRASH_AFTER_TOOL": "send_mail", "HOLDFAST_TEST_CRASH_STAGE": str(stage)}
        yield Case(adapter, orders)
    for adapter, point in zip(itertools.cycle(ADAPTERS), STORE_POINTS, strict=False):
        yield Case(adapter, {"HOLDFAST_TEST_CRASH_AT": point})


CASES: Final = {case.kind: case for case in _cases()}

PLAIN: Final = CallPolicy(longest_call_us=300 * MILLISECOND, quiet_margin_us=200 * MILLISECOND)
NATURAL: Final = msgspec.structs.replace(PLAIN, effect=Effect.IDEMPOTENT)
KEYED: Final = msgspec.structs.replace(NATURAL, key_lifetime_us=HOUR)


def report(adapter: str, mail: FiledMail, folder: Path) -> Program:
    """Look twice, render a file, upload it, mail its address."""
    terms = {
        "plain": PLAIN,
        "probe": msgspec.structs.replace(PLAIN, effect=Effect.VERIFIABLE, probe=mail.probe),
    }.get(adapter, KEYED)

    async def written(drive: Execution, given: Any) -> Any:
        async def look(_key: str) -> str:
            return f"seen {given}"

        async def render(_key: str) -> str:
            path = folder / f"{given.replace('/', '-')}.pdf"
            path.write_text(f"%PDF {facts}")
            return path.name

        async def upload(key: str) -> str:
            return await mail.upload(key, f"{name} {given}")

        async def draft(key: str) -> str:
            return await mail.draft(key, text)

        async def send(key: str) -> str:
            return await mail.send(adapter, key, text)

        facts = [await drive.call(DurableCall("look", [given, nth], look, READS)) for nth in (1, 2)]
        name = await drive.call(DurableCall("render_pdf", [facts], render, NATURAL))
        place = await drive.call(DurableCall("upload", [name], upload, KEYED))
        text = f"Dear {given} it is at {place}"
        if adapter == "draft":
            text = await drive.call(DurableCall("draft_mail", [text], draft, KEYED))
        return [name, place, await drive.call(DurableCall("send_mail", [text], send, terms))]

    return written


class Play:
    """One case, in the process that plays it."""

    def __init__(self, case: Case, store_address: str, mail: FiledMail, folder: Path) -> None:
        self._case = case
        self._address = store_address
        self._mail = mail
        self._folder = folder

    async def first(self) -> None:
        """Drives the job, until it dies as ordered."""
        os.environ.update(self._case.orders)
        process, job = await self._start()
        await process.result(job.job_id)

    async def second(self) -> None:
        """Drives the job to its end, with the help of somebody who looks. Writes down what it found."""
        process, job = await self._start()
        asked, mails = 0, -1
        while (head := await process.store.jobs.head(job.job_id)).status not in TERMINAL:
            if head.wait_reason is WaitReason.RECONCILE:
                mails = self._mail.count("mail", self._case.kind)
                asked += await self._say(process, job.job_id)
            await process.store.wakeups.wait(frozenset({f"job:{job.job_id}"}), 0.02)
        found = {"status": head.status, "asked": asked, "mails_before": mails}
        found["output"] = await process.result(job.job_id)
        await process.close()
        with (self._folder / "found.log").open("ab", buffering=0) as log:
            log.write(json.dumps({"kind": self._case.kind, **found}).encode() + b"\n")

    async def _start(self) -> tuple[Process, JobRecord]:
        kind = self._case.kind
        programs = {kind: report(self._case.adapter, self._mail, self._folder)}
        process = await open_process(programs, self._address)
        (job,) = (await process.store.jobs.list(JobFilter(kind=kind), limit=2)).items
        return process, job

    async def _say(self, process: Process, job_id: str) -> int:
        rows = await process.store.ledger.list(job_id, status=CallStatus.UNCERTAIN)
        for row in rows:
            body = {
                "step_key": row.step_key,
                "generation": row.generation,
                "decision": "happened" if self._mail.has(row.idempotency_key) else "not_happened",
                "why": "the receiver's log",
                "result": row.idempotency_key,
            }
            letter = MailDraft(
                job_id=job_id, kind=MailKind.RECONCILE, operation_id=RandomIds().new("op"), body=body
            )
            await process.store.post.send(letter)
        return len(rows)


def wave(plays: Sequence[Play], which: str) -> list[int]:
    """How each of these processes ended, all of them at work at the same time."""
    pids = [forked(getattr(play, which)) for play in plays]
    return [os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) for pid in pids]


def main(store_address: str, folder_name: str) -> None:
    folder = Path(folder_name)
    mail = FiledMail(folder / "mail.log")
    told: dict[str, dict[str, Any]] = {}
    asyncio.run(warmed_up(store_address))
    cases = list(CASES.values())
    for some in (cases[n : n + AT_ONCE] for n in range(0, len(cases), AT_ONCE)):
        plays = [Play(case, store_address, mail, folder) for case in some]
        firsts, seconds = wave(plays, "first"), wave(plays, "second")
        for case, first, second in zip(some, firsts, seconds, strict=True):
            told[case.kind] = {"first": first, "second": second}
    for line in map(json.loads, (folder / "found.log").read_text().splitlines()):
        told[line.pop("kind")] |= line
    print(json.dumps(told))


if __name__ == "__main__":
    main(*sys.argv[1:])
