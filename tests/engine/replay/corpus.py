"""Small programs whose journals were written down once and must replay for ever.

`tools.record_journals` runs them and writes their journals to tests/golden/journals_v1. They are not written again when
something changes: an old journal that no longer replays is a job of somebody's that no longer goes on. A new behaviour
gets a new program, and a journal of its own.
"""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any, Final

import msgspec

from holdfast.engine.durable_call import READS, CallPolicy, DurableCall
from holdfast.engine.execution import Execution
from holdfast.engine.runner_config import Program
from holdfast.engine.suspension import sleep
from holdfast.model.hash_chain import SealedEvent
from holdfast.model.jobs import JobDraft
from holdfast.model.mailbox import MailDraft
from holdfast.model.side_effects import Effect
from holdfast.model.states import MailKind, WaitReason
from holdfast.model.time import HOUR
from tests.engine.replay.finished_jobs import Stage

FOLDER: Final = Path(__file__).resolve().parents[2] / "golden" / "journals_v1"
KEYED: Final = CallPolicy(effect=Effect.IDEMPOTENT, key_lifetime_us=24 * HOUR)

DONE: list[str] = []
"""What was done for real. A replay adds nothing to it."""


async def look(drive: Execution, name: str, *, delay: float = 0.0) -> Any:
    async def run(_key: str) -> Any:
        DONE.append(name)
        await asyncio.sleep(delay)
        if name == "flaky" and DONE.count("flaky") == 1:
            raise ConnectionError("not today")
        if name == "bad":
            raise LookupError("no such page")
        return {"found": name, "ünïcode": "日本", "number": 1.5}

    return await drive.call(DurableCall("look", [name], run, READS))


async def send(drive: Execution, what: str, terms: CallPolicy = KEYED) -> Any:
    async def run(key: str) -> Any:
        DONE.append(f"send {what}")
        if what == "lost" and DONE.count("send lost") == 1:
            raise ConnectionResetError("no answer")
        return {"sent": what, "under": key}

    return await drive.call(DurableCall("send", [what], run, terms))


async def greeting(drive: Execution, given: Any) -> Any:
    """Reads and a keyed effect, one after the other."""
    found = await look(drive, "name")
    return [given, found, await send(drive, "hello")]


async def branches(drive: Execution, _given: Any) -> Any:
    """Three at once, of different speed; the order in which they end is part of the output."""
    order: list[str] = []

    async def branch(name: str, delay: float) -> None:
        await look(drive, name, delay=delay)
        order.append(name)
        await send(drive, name)

    await asyncio.gather(branch("slow", 2), branch("quick", 0.1), branch("middling", 1))
    return order


async def impatient(drive: Execution, _given: Any) -> Any:
    """A call that is given up, and an error that is caught."""
    try:
        await asyncio.wait_for(look(drive, "slow", delay=5), 0.5)
    except TimeoutError:
        await look(drive, "instead")
    try:
        await look(drive, "bad")
    except LookupError as error:
        return str(error)


async def patient(drive: Execution, _given: Any) -> Any:
    """Sleeps for hours, in a scope of its own, and fails once before it succeeds."""
    with drive.scope("night"):
        await sleep(drive, 3 * HOUR)
        return await look(drive, "flaky")


async def uncertain(drive: Execution, _given: Any) -> Any:
    """An unsafe call whose answer is lost; somebody says that it did not happen, and it is sent again."""
    return await send(drive, "lost", CallPolicy())


async def cut_short(drive: Execution, _given: Any) -> Any:
    """Cancelled while it sleeps."""
    await look(drive, "before")
    await sleep(drive, HOUR)
    return await look(drive, "after")


PROGRAMS: Final[dict[str, Program]] = {
    program.__name__: program for program in (greeting, branches, impatient, patient, uncertain, cut_short)
}


# ── writing down ──────────────────────────────────────────────────────────────────────────────────


class Written(msgspec.Struct, frozen=True):
    """A journal as it lies in its file: bodies as text, hashes in hex."""

    program: str
    job_id: str
    events: list[dict[str, Any]]

    def sealed(self) -> list[SealedEvent]:
        return [
            SealedEvent(
                one["seq"],
                one["type"],
                one["version"],
                one["fence"],
                one["at"],
                one["body"].encode(),
                bytes.fromhex(one["body_digest"]),
                bytes.fromhex(one["hash"]),
            )
            for one in self.events
        ]


def read(name: str) -> Written:
    return msgspec.json.decode((FOLDER / f"{name}.json").read_bytes(), type=Written)


def record(name: str) -> Written:
    """The journal of a job of this program, driven to its end now."""
    DONE.clear()
    stage = Stage()

    async def go() -> Written:
        store = stage.store
        job_id = (await store.jobs.submit(JobDraft(kind=name, input={"for": name}))).job_id
        while (end := await stage.drive(PROGRAMS)) not in {"completed", "cancelled"}:
            await _meet(stage, name, job_id, end)
        events = [_plain(sealed) for sealed in await store.journal.read(job_id)]
        return Written(name, job_id, events)

    try:
        return stage.run(go)
    finally:
        stage.close()


async def _meet(stage: Stage, name: str, job_id: str, end: str) -> None:
    """Whatever the job waits for comes about."""
    head = await stage.store.jobs.head(job_id)
    letter = None
    if head.wait_reason is WaitReason.RECONCILE:
        (row,) = await stage.store.ledger.list(job_id)
        word = {"step_key": row.step_key, "decision": "not_happened", "why": "looked it up"}
        letter = MailDraft(
            job_id=job_id, kind=MailKind.RECONCILE, operation_id="word", sender="ann", body=word
        )
    elif name == "cut_short":
        letter = MailDraft(job_id=job_id, kind=MailKind.CANCEL, operation_id="stop", sender="ann")
    else:
        assert end in {"waiting", "pending"}, end
        await asyncio.sleep(4 * 3600)
    if letter is not None:
        await stage.store.post.send(letter)


def _plain(sealed: SealedEvent) -> dict[str, Any]:
    assert sealed.body is not None
    return {
        "seq": sealed.seq,
        "type": sealed.type,
        "version": sealed.version,
        "fence": sealed.fence,
        "at": sealed.at,
        "body": sealed.body.decode(),
        "body_digest": sealed.body_digest.hex(),
        "hash": sealed.hash.hex(),
    }
