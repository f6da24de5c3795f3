"""Cassettes: a finished job recorded in one file, and replayed with the current code. No network, no tokens, no store.

    await record(job, "cassettes/refund.json")               # once, with the real model and the real tools
    await replay_cassette(app, "cassettes/refund.json")      # in every test run since

Every recorded call is answered from the file. A call that is not recorded is not made: it raises `Drifted`, which names
the first step where the current code and the recorded job differ.

The file is JSON, readable and diffable: the events of the journal in order, with their hashes, and the blobs that they
refer to. A file that was edited by hand is rejected, like a tampered journal.
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
from pathlib import Path
from typing import Any, Final

import msgspec

from holdfast.agents.app_registry import AppRegistry
from holdfast.agents.job_handle import Job
from holdfast.engine.replay_check import Difference, ReplayedStep, ReplayResult, replay_journal
from holdfast.errors import Broken, InvalidMove, InvalidPayload, InvalidSetting, NotFound
from holdfast.model import canonical
from holdfast.model.events import JobCreated
from holdfast.model.hash_chain import SealedEvent, find_break, unseal
from holdfast.model.jobs import DEFAULT_NAMESPACE
from holdfast.model.states import TERMINAL
from holdfast.store.clock import SystemClock
from holdfast.store.contract import Store

FORMAT: Final = "holdfast cassette 1"
_DIGEST: Final = re.compile(rb'"([0-9a-f]{64})"')


class CassetteEvent(msgspec.Struct, frozen=True):
    """An event in the file: its body as JSON, its place and its hash."""

    seq: int
    type: str
    version: int
    fence: int
    at: int
    body: Any
    hash: str


class Cassette(msgspec.Struct, frozen=True, kw_only=True):
    """A finished job with its whole journal."""

    format: str = FORMAT
    job_id: str
    agent: str
    namespace: str = DEFAULT_NAMESPACE
    events: list[CassetteEvent]
    blobs: dict[str, str] = {}

    @property
    def journal(self) -> list[SealedEvent]:
        """The recorded journal, with its hash chain."""
        return [_to_sealed_event(event) for event in self.events]

    @property
    def input(self) -> Any:
        """The input of the job."""
        created = unseal(self.journal[0])
        assert isinstance(created, JobCreated), f"a journal begins with {JobCreated.type}"
        return created.input


class Drifted(AssertionError):
    """The code differs from the cassette. `difference` is the first place where they differ."""

    def __init__(self, message: str, difference: Difference) -> None:
        super().__init__(message)
        self.difference = difference


async def record(job: Job[Any] | str, path: str | Path, *, store: Store | None = None) -> Cassette:
    """Record the finished job in this file, with everything that a replay needs. A job given by its id also needs its
    `store`."""
    job_id = job if isinstance(job, str) else job.id
    source = getattr(getattr(job, "_host", None), "store", None) if store is None else store
    if source is None:
        msg = f"nobody knows where job {job_id} is kept"
        raise InvalidSetting(msg, hint="Give the job that `start` returned, or its id and store=….")
    found = await source.jobs.get(job_id)
    if found.status not in TERMINAL:
        msg = f"job {job_id} is {found.status}; only a job that is over can be recorded"
        raise InvalidMove(msg, hint="Wait for its result first.")
    sealed = await source.journal.read(job_id)
    for event in sealed:
        unseal(event)  # raises for an erased event or an unknown version
    cassette = Cassette(
        job_id=job_id,
        agent=found.kind,
        namespace=found.namespace,
        events=[_to_cassette_event(event) for event in sealed],
        blobs=await _read_blobs(source, sealed, found.namespace),
    )
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    Path(path).write_bytes(_encode_cassette(cassette))
    return cassette


def load_cassette(path: str | Path) -> Cassette:
    """Load the cassette, and check that the file was not changed."""
    try:
        cassette = msgspec.convert(canonical.decode_stored(Path(path).read_bytes()), Cassette)
    except FileNotFoundError:
        msg = f"there is no cassette {path}"
        raise NotFound(msg, hint="Record one: await record(job, path).") from None
    except (msgspec.ValidationError, InvalidPayload) as error:
        msg = f"{path} is no cassette: {error}"
        raise InvalidPayload(msg, hint="Record it again.") from None
    if cassette.format != FORMAT:
        msg = f"{path} is {cassette.format!r}, and this Holdfast reads {FORMAT!r}"
        raise InvalidPayload(msg, hint="Record it again.")
    broken = find_break(cassette.job_id, cassette.journal)
    if broken is not None:
        msg = f"{path} was changed: event {broken} is not the one that was recorded"
        raise Broken(msg, hint="Take the file as it was, or record it again.")
    return cassette


async def replay_cassette(app: AppRegistry, path: str | Path) -> ReplayResult:
    """Replay the recorded job with the current code, to the same result; or raise Drifted with the first difference."""
    cassette = load_cassette(path)
    program = app.programs().get(cassette.agent)
    if program is None:
        msg = f"{path} is of the agent {cassette.agent!r}, and the application has none of that name"
        raise NotFound(msg, hint=f"There are: {', '.join(sorted(app.agents)) or 'none'}.")
    sealed = cassette.journal
    replayed = await replay_journal(
        cassette.job_id, sealed, program, clock=SystemClock(), namespace=cassette.namespace
    )
    if replayed.difference is not None:
        raise Drifted(_format_drift(cassette, path, replayed), replayed.difference)
    return replayed


# ── messages ──────────────────────────────────────────────────────────────────────────────────────


def _format_drift(cassette: Cassette, path: str | Path, replayed: ReplayResult) -> str:
    difference = replayed.difference
    assert difference is not None
    why, steps = difference.why, [("recorded", difference.recorded), ("now", difference.attempted)]
    rows = [(name, _format_step(step)) for name, step in steps if step is not None]
    if replayed.output_digest is not None and not rows:
        # Same steps, another result: show the two values instead of their digests.
        end = unseal(cassette.journal[-1])
        why = "it returns something else"
        rows = [
            ("recorded", _format_json(getattr(end, "output", None))),
            ("now", _format_json(replayed.output)),
        ]
    head = f"{cassette.agent} no longer goes the way of {Path(path).name}: {why}"
    lines = [f"  {name:<8} {text}" for name, text in rows]
    return "\n".join([head, *lines, "  → If the change is meant, record the cassette again."])


def _format_step(step: ReplayedStep) -> str:
    place = "" if step.seq is None else f"  (event {step.seq})"
    args = "" if step.args is None else f"  {_format_json(step.args)}"
    return f"{step.step_key}{args}{place}"


def _format_json(value: Any) -> str:
    return canonical.encode(value).decode()


# ── the file ──────────────────────────────────────────────────────────────────────────────────────


def _encode_cassette(cassette: Cassette) -> bytes:
    document = msgspec.to_builtins(cassette)
    try:
        return json.dumps(document, indent=2, ensure_ascii=False).encode() + b"\n"
    except UnicodeEncodeError:  # a lone surrogate, which UTF-8 cannot encode
        return json.dumps(document, indent=2).encode() + b"\n"


def _to_cassette_event(sealed: SealedEvent) -> CassetteEvent:
    body = canonical.decode_stored(sealed.body or b"null")
    return CassetteEvent(
        sealed.seq, sealed.type, sealed.version, sealed.fence, sealed.at, body, sealed.hash.hex()
    )


def _to_sealed_event(event: CassetteEvent) -> SealedEvent:
    body = canonical.encode(event.body)
    return SealedEvent(
        event.seq,
        event.type,
        event.version,
        event.fence,
        event.at,
        body,
        hashlib.sha256(body).digest(),
        bytes.fromhex(event.hash),
    )


async def _read_blobs(store: Store, sealed: list[SealedEvent], namespace: str) -> dict[str, str]:
    """The blobs whose digests the events mention."""
    digests = {digest.decode() for event in sealed for digest in _DIGEST.findall(event.body or b"")}
    found = [digest for digest in sorted(digests) if await store.blobs.has(digest, namespace=namespace)]
    return {
        digest: base64.b64encode(await store.blobs.get(digest, namespace=namespace)).decode()
        for digest in found
    }
