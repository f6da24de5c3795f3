"""The store around the jobs: blobs, namespaces, wake-ups, closing."""

from __future__ import annotations

import asyncio
import hashlib

from holdfast.errors import InvalidName, NotFound, TooLarge
from holdfast.model.limits import BLOB_BYTES_MAX
from holdfast.model.mailbox import MailDraft
from holdfast.model.states import MailKind, WaitReason
from holdfast.model.time import HOUR, MINUTE
from holdfast.store.ports.attachments import AttachmentIntent
from holdfast.store.ports.namespaces import NamespaceRecord
from holdfast.testing.conformance.drafts import message
from holdfast.testing.conformance.harness import Bench

HINT_TIMEOUT_S = 20.0


async def a_blob_lies_under_its_digest(bench: Bench) -> None:
    blobs = bench.store.blobs
    for body in (b"", b"hello", bytes(range(256)) * 1000):
        digest = await blobs.put(body)
        assert digest == hashlib.sha256(body).hexdigest()
        assert await blobs.put(body) == digest, "twice is once"
        assert await blobs.get(digest) == body
        assert await blobs.has(digest)


async def an_unknown_blob_is_not_found(bench: Bench) -> None:
    digest = hashlib.sha256(b"never put").hexdigest()
    assert not await bench.store.blobs.has(digest)
    async with bench.refuses(NotFound):
        await bench.store.blobs.get(digest)


async def another_namespace_sees_no_blob(bench: Bench) -> None:
    await bench.store.namespaces.create("elsewhere")
    digest = await bench.store.blobs.put(b"ours")
    assert not await bench.store.blobs.has(digest, namespace="elsewhere")
    async with bench.refuses(NotFound):
        await bench.store.blobs.get(digest, namespace="elsewhere")


async def an_oversized_blob_is_refused(bench: Bench) -> None:
    body = bytes(BLOB_BYTES_MAX + 1)
    async with bench.refuses(TooLarge):
        await bench.store.blobs.put(body)
    assert not await bench.store.blobs.has(hashlib.sha256(body).hexdigest())


async def a_blob_survives_a_new_handle(bench: Bench) -> None:
    digest = await bench.store.blobs.put(b"hello")
    await bench.reopen()
    assert await bench.store.blobs.get(digest) == b"hello"


async def garbage_collection_removes_what_nothing_names(bench: Bench) -> None:
    await bench.store.namespaces.create("elsewhere")
    ours = await bench.store.blobs.put(b"nobody wants this")
    theirs = await bench.store.blobs.put(b"nobody wants this", namespace="elsewhere")
    bench.clock.advance(MINUTE)
    young = await bench.store.sessions.gc(older_than_us=HOUR)
    assert (young.retained, young.deleted) == (1, 0), "too young to be garbage"
    assert await bench.store.blobs.has(ours)
    bench.clock.advance(HOUR)
    old = await bench.store.sessions.gc(older_than_us=HOUR)
    assert (old.deleted, await bench.store.blobs.has(ours)) == (1, False)
    assert await bench.store.blobs.has(theirs, namespace="elsewhere"), "each namespace cleans its own"
    assert (await bench.store.sessions.gc()).deleted == 0, "it counts what this call removed"


async def garbage_collection_keeps_what_an_attachment_names(bench: Bench) -> None:
    digest = await bench.store.blobs.put(b"a picture")
    await bench.store.attachments.record_intent(
        AttachmentIntent("a", "root", f"sha256:{digest}", intent_at=1)
    )
    bench.clock.advance(HOUR)
    assert (await bench.store.sessions.gc()).deleted == 0
    await bench.store.attachments.forget("a")
    assert (await bench.store.sessions.gc()).deleted == 1
    assert not await bench.store.blobs.has(digest)


async def the_default_namespace_is_always_there(bench: Bench) -> None:
    [record] = await bench.store.namespaces.list()
    assert record.namespace == "default"
    assert not await bench.store.namespaces.create("default")


async def a_namespace_is_created_once(bench: Bench) -> None:
    assert await bench.store.namespaces.create("zebra")
    assert await bench.store.namespaces.create("Äpfel")
    bench.clock.advance(1)
    assert not await bench.store.namespaces.create("zebra")
    records = await bench.store.namespaces.list()
    assert [record.namespace for record in records] == ["default", "zebra", "Äpfel"], (
        "by name, in code point order"
    )
    assert records[1] == NamespaceRecord("zebra", bench.clock.wall_us() - 1)
    await bench.reopen()
    assert await bench.store.namespaces.list() == records


async def a_namespace_needs_a_proper_name(bench: Bench) -> None:
    for bad in ("", "a\x00b", "n" * 201):
        async with bench.refuses(InvalidName):
            await bench.store.namespaces.create(bad)


async def a_hint_between_two_waits_is_not_missed(bench: Bench) -> None:
    wakeups = bench.store.wakeups
    assert await wakeups.wait(frozenset({"queue:a"}), 0.0) == frozenset(), "no hint, no wake-up"
    wakeups.hint("queue:b")
    wakeups.hint("queue:a")
    assert await wakeups.wait(frozenset({"queue:a"}), HINT_TIMEOUT_S) == frozenset({"queue:a"})
    assert await wakeups.wait(frozenset({"queue:b", "queue:c"}), HINT_TIMEOUT_S) == frozenset({"queue:b"})


async def who_waits_hears_of_topics_that_came_meanwhile(bench: Bench) -> None:
    wanted = {"queue:a": None}
    waiting = asyncio.ensure_future(bench.store.wakeups.wait(wanted.keys(), HINT_TIMEOUT_S))
    await bench.store.wakeups.wait(frozenset({"queue:a"}), 0.0)  # so the other wait has started by now
    wanted["queue:b"] = None
    bench.store.wakeups.hint("queue:b")
    assert await waiting == {"queue:b"}


async def whoever_waits_for_work_is_told(bench: Bench) -> None:
    async def is_woken(topic: str) -> bool:
        return topic in await bench.store.wakeups.wait(frozenset({topic}), HINT_TIMEOUT_S)

    await bench.store.wakeups.wait(frozenset({"queue:new"}), 0.0)  # from now on no wake-up is missed
    await bench.submit(queue="new")
    assert await is_woken("queue:new"), "a new job"
    await bench.store.inbox.enqueue(message("hello"))
    assert await is_woken("session:root"), "a new batch"
    driver = await bench.drive("new")
    await driver.wait(WaitReason.SIGNAL)
    await bench.store.post.send(MailDraft(job_id=driver.job_id, kind=MailKind.SIGNAL, operation_id="op-1"))
    assert await is_woken("queue:new"), "a job that mail has woken"
    driver = await bench.drive("new")
    await driver.release()
    assert await is_woken("queue:new"), "a job that was given back"
    driver = await bench.drive("new")
    await bench.store.wakeups.wait(frozenset({f"job:{driver.job_id}"}), 0.0)  # its mail was a wake-up, too
    await driver.complete()
    assert await is_woken(f"job:{driver.job_id}"), "a job that is over"


async def a_store_shows_what_it_is(bench: Bench) -> None:
    info = await bench.store.info()
    assert info.tier is bench.store.tier
    assert info.store_id
    assert info.epoch >= 1
    await bench.reopen()
    again = await bench.store.info()
    assert (again.store_id, again.epoch) == (info.store_id, info.epoch), "opened again it is the same store"


async def a_store_can_be_closed_twice(bench: Bench) -> None:
    await bench.store.close()
    await bench.store.close()
