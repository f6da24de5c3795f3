"""A store in which everything that anybody said is hostile: prompts, results, names, errors, attachments, words."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from holdfast.model import canonical
from holdfast.model import events as e
from holdfast.model.append import Extras, Move
from holdfast.model.configured_agents import Configuration, HostedAgent
from holdfast.model.inbox import BatchDraft, ItemDraft
from holdfast.model.jobs import JobDraft
from holdfast.model.session import Frame, SessionCheckpoint, SessionNode, TurnCommit, Usage
from holdfast.model.states import Status, WaitReason
from holdfast.model.worker_presence import Presence, WorkerOffer
from holdfast.runtime import open_store
from holdfast.store.clock import SystemClock
from holdfast.store.contract import Store
from holdfast.store.ports.attachments import AttachmentIntent
from holdfast.store.ports.leases import ClaimRequest
from holdfast.testing.conformance.driver import Driver
from tests.page.hostile import named

EACH = 10
"""Payloads that one job carries in its steps."""
SESSION = "the talk"


def carrier(first: int) -> str:
    return f"carrier {first:03}"


def step_key(nth: int, what: str) -> str:
    return f"{nth}/{what}#1"


async def poison(where: str, payloads: Sequence[str]) -> None:
    """Everything is there, in the store itself: no guard of the API has seen it."""
    store = await open_store(where)
    try:
        await _listed(store, payloads)
        await _carried(store, payloads)
        await _needed(store, payloads)
        await _talked(store, payloads)
        await _met(store, payloads)
    finally:
        await store.close()


async def _listed(store: Store, payloads: Sequence[str]) -> None:
    """A job for each, whose every name is hostile."""
    await store.jobs.submit_many(
        [
            JobDraft(
                kind=named(text, nth),
                input={"prompt": text, text[:100]: [text[:1000]]},
                queue=named(text, nth),
                job_id=f"job {named(text, nth)}",
                request_key=f"key {named(text, nth)}",
            )
            for nth, text in enumerate(payloads)
        ]
    )


async def _drive(store: Store, queue: str, count: int) -> list[Driver]:
    ask = ClaimRequest(worker=f"worker of {queue}", token=queue, queues=(queue,), limit=count, ttl_us=10**12)
    grants = await store.leases.claim(ask)
    assert len(grants) == count
    return sorted((Driver(store, SystemClock(), grant) for grant in grants), key=lambda one: one.job_id)


async def _carried(store: Store, payloads: Sequence[str]) -> None:
    """Jobs whose steps each say one: as arguments, result, error, tool, model, question to a model and its answer."""
    numbered = list(enumerate(payloads))
    groups = [numbered[first : first + EACH] for first in range(0, len(numbered), EACH)]
    drafts = [
        JobDraft(kind="carrier", queue="carriers", job_id=carrier(group[0][0]), input=group[0][1])
        for group in groups
    ]
    await store.jobs.submit_many(drafts)
    drivers = await _drive(store, "carriers", len(groups))
    for group, driver in zip(groups, drivers, strict=True):
        names = [named(text, nth) for nth, text in group]
        nodes = [{"name": name, "tool": name, "after": names[:nth][-1:]} for nth, name in enumerate(names)]
        plans = e.PlanGenerated("a plan", {"nodes": nodes}), e.PlanGenerated("an erased one", None)
        await driver.write(*plans)
        for nth, text in group:
            await _steps(driver, nth, text)
        (_, first), (_, second), *_ = group
        end: tuple[e.Event, Status] = [
            (e.JobFailure({"type": first[:200], "message": second}), Status.FAILED),
            (e.JobCompleted({"said": first, "also": second}), Status.COMPLETED),
            (e.JobCancellation(second), Status.CANCELLED),
        ][group[0][0] // EACH % 3]
        await driver.write(end[0], move=Move(status=end[1]), mail_seen=0)


async def _steps(driver: Driver, nth: int, text: str) -> None:
    tool, model = step_key(nth, "tool"), step_key(nth, "ask")
    args = {"text": text, text[:80]: {"deeper": [text[:500]]}}
    said = [canonical.encode(part) for part in ({"system": text}, {"role": text[:50], "content": text})]
    digests = tuple(canonical.hex_digest(part) for part in said)
    await driver.write(
        e.StepFinished(step_key(nth, "look"), "", result=_meant(text)),
        e.StepFinished(
            step_key(nth, "fall"), "", outcome="failed", error={"type": text[:50], "message": text}
        ),
        e.ToolCalled(
            tool, named(text, nth), "unsafe", f"digest {nth}", f"key {driver.job_id} {nth}", args=args
        ),
        e.ToolFailed(tool, outcome="refused", error={"type": "Refused", "message": text}),
        e.LlmRequested(model, named(text, nth), digests, f"digest {nth}"),
        e.LlmResponded(
            model,
            response={"content": [{"type": "text", "text": text}], "role": text[:50]},
            usage={"input": 1, "output": 1, "usd_micros": 1},
        ),
        extras=Extras(blobs=tuple(said)),
    )


def _meant(text: str) -> Any:
    """What is JSON is said as JSON."""
    try:
        return json.loads(text)
    except ValueError:
        return text


async def _needed(store: Store, payloads: Sequence[str]) -> None:
    """Jobs that wait for a person: for a yes, a word on a call, an answer, a look at the code, another try."""
    ways = [_asks_leave, _uncertain, _asks, _parks, _stalls, _dies]
    chosen = list(enumerate(payloads))[::4]
    drafts = [JobDraft(kind=named(text, nth), queue="needs", job_id=f"need {nth:03}") for nth, text in chosen]
    await store.jobs.submit_many(drafts)
    for (nth, text), driver in zip(chosen, await _drive(store, "needs", len(chosen)), strict=True):
        await ways[nth // 4 % len(ways)](driver, nth, text)


async def _asks_leave(driver: Driver, nth: int, text: str) -> None:
    asked = e.ApprovalRequested(
        f"apr {nth}", step_key(nth, "pay"), "digest", tool=named(text, nth), args={"to": text}
    )
    await _wait(driver, WaitReason.APPROVAL, asked)


async def _uncertain(driver: Driver, nth: int, text: str) -> None:
    key = step_key(nth, "mail")
    called = e.ToolCalled(key, named(text, nth), "unsafe", "digest", f"need key {nth}", args={"to": text})
    await _wait(driver, WaitReason.RECONCILE, called, e.ToolUncertain(key, why=text))


async def _asks(driver: Driver, nth: int, text: str) -> None:
    schema = {"type": "string", "title": text[:100], "description": text[:200], "enum": [text[:60], "no"]}
    await _wait(
        driver,
        WaitReason.SIGNAL,
        e.QuestionAsked(f"q{nth}", step_key(nth, "ask"), text, schema, to=text[:50]),
    )


async def _parks(driver: Driver, nth: int, text: str) -> None:
    report = {
        "why": text,
        "recorded": {"name": text[:100]},
        "attempted": {"name": text[:100]},
        "source": text,
    }
    await driver.write(
        e.JobParked(report), move=Move(status=Status.WAITING, reason=WaitReason.DRIFT), mail_seen=0
    )


async def _stalls(driver: Driver, nth: int, text: str) -> None:
    report = {"why": text, "tasks": [{"task": text[:100], "stack": [text, f"{text[:80]}:7 in {text[:80]}"]}]}
    await driver.write(
        e.JobStalled(report), move=Move(status=Status.WAITING, reason=WaitReason.STALLED), mail_seen=0
    )


async def _dies(driver: Driver, nth: int, text: str) -> None:
    causes = ({"why": text, "error": {"type": text[:50], "message": text}, "worker": text[:80]},)
    await driver.write(
        e.JobDeadLettered(causes),
        move=Move(status=Status.WAITING, reason=WaitReason.DEAD_LETTER),
        mail_seen=0,
    )


async def _wait(driver: Driver, reason: WaitReason, *events: e.Event) -> None:
    await driver.write(
        *events, e.JobWaiting(reason), move=Move(status=Status.WAITING, reason=reason), mail_seen=0
    )


async def _talked(store: Store, payloads: Sequence[str]) -> None:
    """A conversation of nothing else, its attachments and its inbox; and sessions with names like that."""
    parent: str | None = None
    nodes: list[SessionNode] = []
    for nth, text in enumerate(payloads):
        body: Any = {"message": {"role": "assistant" if nth % 2 else "user", "content": text}}
        if nth % 5 == 0:
            body = {"input": {"content": [{"type": "text", "text": text}]}, "kind": text[:40]}
        nodes.append(SessionNode(node_id=f"n{nth} {named(text, nth)}", parent_node_id=parent, body=body))
        parent = nodes[-1].node_id if nth % 50 else parent
        attachment = AttachmentIntent(named(text, nth), SESSION, f"uri {named(text, nth)}", nth)
        await store.attachments.record_intent(attachment)
    usage = tuple(
        Usage(source=named(text, nth), model=named(text, nth), input_tokens=1)
        for nth, text in enumerate(payloads[:40])
    )
    frame = Frame(frame_id="f1", reason=payloads[0], status=payloads[1][:50], snapshot=b"")
    await store.sessions.commit(
        TurnCommit(
            session_id=SESSION,
            nodes=tuple(nodes),
            frames=(frame,),
            frame_id="f1",
            checkpoint=SessionCheckpoint(turn_index=1),
            usage=usage,
        )
    )
    for nth, text in enumerate(payloads):
        if nth % 5 == 0:
            name = named(text, nth)
            items = (ItemDraft(name[:60], {"content": text}),)
            await store.inbox.enqueue(BatchDraft(session_id=SESSION, items=items, batch_id=f"b {name}"))
            node = SessionNode(node_id=f"m {name}", body={"message": {"role": "user", "content": text}})
            await store.sessions.commit(TurnCommit(session_id=f"talk {name}", nodes=(node,)))


async def _met(store: Store, payloads: Sequence[str]) -> None:
    """Workers and agents that introduce themselves."""
    for nth, text in enumerate(payloads):
        name = named(text, nth)
        if nth % 5 == 1:
            offer = WorkerOffer(kinds=(name,), queues=(name,), capabilities=(name,), concurrency=1)
            await store.presences.beat(
                Presence(worker=name, identity=f"i{nth}", host=name[:60], pid=nth + 1, offer=offer)
            )
        if nth % 20 == 2:
            agent = HostedAgent(
                agent_id=f"agent-{nth}", name=name[:60], configuration=Configuration(instructions=text[:2000])
            )
            await store.agents.create(agent)
