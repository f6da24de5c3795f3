"""The attachment manifest: intents, stamps, and attachments that no turn used."""

from __future__ import annotations

from holdfast.errors import ClaimLost
from holdfast.model.inbox import Completion
from holdfast.model.session import TurnCommit
from holdfast.store.ports.attachments import AttachmentIntent
from holdfast.testing.conformance.harness import Bench

NOBODYS_CLAIM = Completion("no claim", "no token", ("no batch",))


async def the_first_stamp_of_an_attachment_wins(bench: Bench) -> None:
    attachments = bench.store.attachments
    await attachments.record_intent(_make_intent("a"))
    await bench.store.sessions.commit(TurnCommit(session_id="root", attachments=("a",)))
    bench.clock.advance(1)
    await attachments.commit_refs("root", ["a"])
    await bench.store.sessions.commit(TurnCommit(session_id="root", attachments=("a",)))
    await attachments.record_intent(_make_intent("a"))
    assert await _list_uncommitted(bench) == [], "what a turn has used stays used, whatever is said later"


async def the_first_intent_of_an_attachment_wins(bench: Bench) -> None:
    await bench.store.attachments.record_intent(_make_intent("a", at=1))
    await bench.store.attachments.record_intent(AttachmentIntent("a", "other", "sha256:other", intent_at=2))
    assert await bench.store.attachments.list_uncommitted(100) == [_make_intent("a", at=1)]


async def unknown_attachments_are_ignored(bench: Bench) -> None:
    await bench.store.attachments.record_intent(_make_intent("a"))
    await bench.store.attachments.commit_refs("root", ["never heard of"])
    await bench.store.attachments.commit_refs("root", [])
    await bench.store.sessions.commit(TurnCommit(session_id="root", attachments=("never heard of",)))
    await bench.store.attachments.forget("never heard of")
    assert await _list_uncommitted(bench) == ["a"]


async def a_session_s_attachments_are_listed(bench: Bench) -> None:
    attachments = bench.store.attachments
    await attachments.record_intent(_make_intent("b", at=2))
    await attachments.record_intent(_make_intent("a", at=3))
    await attachments.record_intent(AttachmentIntent("c", "other", "sha256:c", intent_at=1))
    await attachments.commit_refs("root", ["b"])
    now = bench.clock.wall_us()
    first, second = await attachments.list("root")
    assert (first.attachment_id, first.committed_at, second) == ("b", now, _make_intent("a", at=3))
    assert list(await attachments.list("never heard of")) == []


async def uncommitted_attachments_come_oldest_first(bench: Bench) -> None:
    for attachment_id, at in (("c", 30), ("a", 10), ("b", 20)):
        await bench.store.attachments.record_intent(_make_intent(attachment_id, at=at))
    assert await _list_uncommitted(bench) == ["a", "b", "c"]
    assert await _list_uncommitted(bench, before=30) == ["a", "b"], "before an instant is not at it"
    assert await _list_uncommitted(bench, before=10) == []


async def a_refused_turn_stamps_no_attachment(bench: Bench) -> None:
    await bench.store.attachments.record_intent(_make_intent("a"))
    async with bench.refuses(ClaimLost):
        turn = TurnCommit(session_id="root", attachments=("a",), completes=(NOBODYS_CLAIM,))
        await bench.store.sessions.commit(turn)
    assert await _list_uncommitted(bench) == ["a"]


async def another_namespace_sees_no_attachment(bench: Bench) -> None:
    attachments = bench.store.attachments
    await bench.store.namespaces.create("elsewhere")
    await attachments.record_intent(_make_intent("a"))
    await attachments.commit_refs("root", ["a"], namespace="elsewhere")
    await attachments.forget("a", namespace="elsewhere")
    assert await attachments.list_uncommitted(100, namespace="elsewhere") == []
    assert await _list_uncommitted(bench) == ["a"]


def _make_intent(attachment_id: str, at: int = 10) -> AttachmentIntent:
    return AttachmentIntent(attachment_id, "root", f"sha256:{attachment_id}", intent_at=at)


async def _list_uncommitted(bench: Bench, before: int = 100) -> list[str]:
    return [intent.attachment_id for intent in await bench.store.attachments.list_uncommitted(before)]
