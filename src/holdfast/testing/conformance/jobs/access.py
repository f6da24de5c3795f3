"""API keys, and the audit log."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import msgspec

from holdfast.errors import Conflict, InvalidName, InvalidPayload, NotFound
from holdfast.model.access import ApiKey, Role
from holdfast.model.audit import TEXT_MAX, ActDraft, find_breaks, read_act
from holdfast.model.hash_chain import EMPTY, Head
from holdfast.model.time import MINUTE
from holdfast.testing.conformance.harness import Bench, present


def _make_key(key_id: str = "k1", **fields: Any) -> ApiKey:
    defaults: dict[str, Any] = {
        "digest": bytes(32),
        "roles": (Role.OPERATOR, Role.APPROVER),
        "name": "ci",
        "expires_at": 7,
    }
    return ApiKey(key_id=key_id, **defaults | fields)


def _draft_act(act_id: str = "act-1", action: str = "key.create", **fields: Any) -> ActDraft:
    defaults: dict[str, Any] = {
        "who": "ada",
        "object": "k1",
        "reason": "for the nightly run",
        "request_id": "req-1",
    }
    return ActDraft(act_id=act_id, what=action, **defaults | fields)


async def _read_acts(bench: Bench, namespace: str = "default") -> Sequence[tuple[int, str, str]]:
    acts = await bench.store.audit.read(namespace=namespace)
    assert list(find_breaks(namespace, EMPTY, acts)) == []
    head = await bench.store.audit.head(namespace=namespace)
    assert head == (Head(acts[-1].seq, acts[-1].hash) if acts else EMPTY)
    return [(act.seq, act.what, act.act_id) for act in acts]


async def a_key_is_created_with_its_line(bench: Bench) -> None:
    keys = bench.store.keys
    assert not await keys.exist()
    assert await keys.find("k1") is None
    made = await keys.create(_make_key(), _draft_act())
    assert made == msgspec.structs.replace(_make_key(), created_at=bench.clock.wall_us())
    assert await keys.exist()
    await bench.reopen()
    assert await bench.store.keys.find("k1") == made
    assert await _read_acts(bench) == [(1, "key.create", "act-1")]
    (line,) = map(read_act, await bench.store.audit.read())
    assert (line.who, line.object, line.reason, line.request_id, line.detail) == (
        "ada",
        "k1",
        "for the nightly run",
        "req-1",
        "",
    )
    assert line.at == bench.clock.wall_us()


async def a_key_is_created_once(bench: Bench) -> None:
    made = await bench.store.keys.create(_make_key(), _draft_act())
    bench.clock.advance(1)
    async with bench.expect_unchanged():
        assert await bench.store.keys.create(_make_key(), _draft_act()) == made
    async with bench.refuses(Conflict):
        await bench.store.keys.create(_make_key(digest=b"1" * 32), _draft_act("act-2"))


async def a_revoked_key_stays_and_has_its_line(bench: Bench) -> None:
    keys = bench.store.keys
    await keys.create(_make_key(), _draft_act())
    bench.clock.advance(MINUTE)
    revoked = await keys.revoke("k1", _draft_act("act-2", "key.revoke"))
    assert revoked.revoked_at == bench.clock.wall_us()
    bench.clock.advance(MINUTE)
    async with bench.expect_unchanged():
        assert await keys.revoke("k1", _draft_act("act-3", "key.revoke")) == revoked
        assert await keys.create(_make_key(), _draft_act("act-4")) == revoked
    assert await keys.exist(), "a store whose last key was revoked is not open again"
    assert await _read_acts(bench) == [(1, "key.create", "act-1"), (2, "key.revoke", "act-2")]
    async with bench.refuses(NotFound):
        await keys.revoke("k2", _draft_act("act-5", "key.revoke"))


async def keys_are_listed_in_their_namespace(bench: Bench) -> None:
    keys = bench.store.keys
    await bench.store.namespaces.create("elsewhere")
    for nth, key_id in enumerate(("k3", "k1", "k2")):
        await keys.create(_make_key(key_id), _draft_act(f"act-{nth}"))
    there = _make_key("k4", namespace="elsewhere", roles=(Role.AGENT,), session_id="s1", expires_at=None)
    await keys.create(there, _draft_act("act-1"))
    first = await keys.list(namespace="default", limit=2)
    assert [key.key_id for key in first] == ["k1", "k2"]
    second = await keys.list(namespace="default", limit=2, cursor=first.next)
    assert ([key.key_id for key in second], second.next) == (["k3"], None)
    assert [key.key_id for key in await keys.list()] == ["k1", "k2", "k3", "k4"]
    assert (present(await keys.find("k4"), "k4").session_id, await _read_acts(bench, "elsewhere")) == (
        "s1",
        [(1, "key.create", "act-1")],
    )
    async with bench.refuses(NotFound):
        await keys.revoke("k4", _draft_act("act-9", "key.revoke"), namespace="default")
    assert (
        await keys.revoke("k4", _draft_act("act-9", "key.revoke"), namespace="elsewhere")
    ).revoked_at is not None
    assert len(await _read_acts(bench, "elsewhere")) == 2
    async with bench.refuses(NotFound):
        await keys.create(_make_key("k5", namespace="nowhere"), _draft_act("act-6"))


async def a_use_is_written_now_and_then(bench: Bench) -> None:
    keys = bench.store.keys
    await keys.create(_make_key(), _draft_act())
    assert present(await keys.find("k1"), "k1").last_used_at is None
    seen = []
    for passed in (0, MINUTE - 1, 1, MINUTE):
        bench.clock.advance(passed)
        await keys.record_use("k1", every_us=MINUTE)
        seen.append(present(await keys.find("k1"), "k1").last_used_at)
    start = bench.clock.wall_us() - 2 * MINUTE
    assert seen == [start, start, start + MINUTE, start + 2 * MINUTE]
    await keys.record_use("nobody", every_us=MINUTE)


async def a_key_that_makes_no_sense_is_refused(bench: Bench) -> None:
    for wrong, error in (
        (_make_key(""), InvalidName),
        (_make_key(name=""), InvalidName),
        (_make_key(roles=()), InvalidPayload),
        (_make_key(roles=(Role.VIEWER, Role.VIEWER)), InvalidPayload),
        (_make_key(roles=(Role.AGENT,)), InvalidPayload),
        (_make_key(session_id="s1"), InvalidPayload),
    ):
        async with bench.refuses(error):
            await bench.store.keys.create(wrong, _draft_act())


async def an_act_has_one_line_behind_all_others(bench: Bench) -> None:
    audit = bench.store.audit
    assert await _read_acts(bench) == []
    first = await audit.write(_draft_act("a", "job.cancel", reason="\ud800 and \x00 are text"))
    second = await audit.write(_draft_act("b", "job.cancel", reason="x" * TEXT_MAX * 2))
    assert (first.seq, first.reason, second.seq) == (1, "\ud800 and \x00 are text", 2)
    assert len(second.reason) == TEXT_MAX
    async with bench.expect_unchanged():
        assert await audit.write(_draft_act("a", "job.cancel", who="bob")) == first
    await bench.reopen()
    assert [seq for seq, _, _ in await _read_acts(bench)] == [1, 2]
    assert [act.seq for act in await bench.store.audit.read(after=1)] == [2]
    assert [act.seq for act in await bench.store.audit.read(limit=1)] == [1]
    async with bench.refuses(NotFound):
        await bench.store.audit.write(_draft_act("c", namespace="nowhere"))


async def acts_at_once_form_one_chain(bench: Bench) -> None:
    acts = [_draft_act(f"a{n % 10}", "job.cancel") for n in range(20)]
    await asyncio.gather(*(bench.store.audit.write(act) for act in acts))
    assert [seq for seq, _, _ in await _read_acts(bench)] == list(range(1, 11))
