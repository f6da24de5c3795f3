"""What the page asks for: who it is, how many jobs there are and what they go by, the same word to many."""

from __future__ import annotations

import pytest

from holdfast.model.access import Role
from holdfast.model.jobs import JobDraft
from holdfast.server.page_schemas import BULK_MAX
from holdfast.testing.conformance.harness import Backend
from tests.api.server.api import api
from tests.security.people import town
from tests.support.fixtures.populated import populate
from tests.support.fixtures.stores import STORES

WORD = {"why": "enough", "by": "ada"}


async def test_one_is_told_who_one_is(backend: Backend) -> None:
    async with town(backend) as web:
        me = await web.get("/api/whoami", **await web.key(Role.OPERATOR, name="ada"))
        assert (me["namespace"], me["roles"], me["by"]) == ("default", ["operator"], "key")
        assert (me["scopes"], me["loopback"]) == (["operate", "read"], True)
        assert me["name"].startswith("ada (")
        assert me["now"] == backend.clock.wall_us()
        assert (await web.http.get("/api/whoami")).status_code == 401


async def test_without_keys_everybody_may_look_and_the_token_may_write(backend: Backend) -> None:
    async with api(backend) as web:
        mine = await web.get("/api/whoami")
        assert (mine["by"], mine["name"], {"read", "operate", "decide"} <= set(mine["scopes"])) == (
            "token",
            "local",
            True,
        )
        del web.http.headers["authorization"]
        anybody = await web.get("/api/whoami")
        assert (anybody["by"], anybody["scopes"]) == ("nobody", ["read"])


@pytest.mark.parametrize("backend", STORES, indirect=True)
async def test_jobs_are_found_by_status_queue_time_and_text(backend: Backend) -> None:
    async with api(backend) as web:
        began = backend.clock.wall_us()
        asking, dead = await web.one.asking(), await web.one.dead()
        backend.clock.advance(1_000_000)
        await web.one.store.jobs.submit(JobDraft(kind="Letters", queue="slow", job_id="ticket-81"))

        async def found(query: str) -> set[str]:
            items = (await web.get(f"/api/jobs?{query}"))["items"]
            tally = await web.get(f"/api/tally?{query}")
            assert tally["total"] == len(items) == sum(tally["by_status"].values())
            return {item["job_id"] for item in items}

        assert await found("status=waiting") == {asking, dead}
        assert await found("status=Pending,COMPLETED") == {"ticket-81"}
        assert await found("queue=slow") == await found("text=LETTER") == await found("text=ket-8")
        assert await found("text=ket-8&status=waiting") == set()
        assert await found(f"until={backend.clock.wall_us()}") == {asking, dead}
        assert await found(f"since={backend.clock.wall_us()}&until={2**62}") == {"ticket-81"}
        assert await found(f"since={began}") == {asking, dead, "ticket-81"}
        tally = await web.get("/api/tally")
        assert tally["by_wait_reason"] == {"approval": 1, "dead_letter": 1}
        names = await web.get("/api/names")
        assert "Letters" in names["kinds"]
        assert names["queues"] == ["default", "slow"]
        (item,) = (await web.get("/api/jobs?text=ticket"))["items"]
        assert (item["changed_at"], item["worker"], item["attempts"]) == (backend.clock.wall_us(), None, 0)
        await web.refused(422, "invalid_payload", "GET", "/api/jobs?status=running,nonsense")
        await web.refused(422, "invalid_name", "GET", "/api/tally?text=a%00b")


@pytest.mark.parametrize("backend", STORES, indirect=True)
async def test_many_are_cancelled_and_of_each_one_is_told(backend: Backend) -> None:
    async with api(backend) as web:
        sleeping, over = await web.one.sleeping(), await web.one.finished()
        body = WORD | {"ids": [sleeping, over, "nothing", sleeping]}
        said = await web.post("/api/bulk/cancel", body, idempotency_key="k1")
        assert [(one["job_id"], one["accepted"]) for one in said["items"]] == [
            (sleeping, True),
            (over, False),
            ("nothing", False),
        ]
        assert (said["accepted"], [one.get("code") for one in said["items"]]) == (
            1,
            [None, "invalid_move", "not_found"],
        )
        assert (await web.get(f"/api/jobs/{sleeping}"))["cancelled_why"] == "enough"
        lines = [(act["what"], act["object"]) for act in (await web.get("/api/audit"))["items"]]
        assert lines.count(("job.cancel", sleeping)) == 1
        again = await web.post("/api/bulk/cancel", body, idempotency_key="k1")
        assert again["items"][0] == said["items"][0] | {"repeated": True}, "a lost answer costs nothing"
        after = [(act["what"], act["object"]) for act in (await web.get("/api/audit"))["items"]]
        assert after == lines, "and an act has one line"


async def test_many_dead_letters_are_tried_again(backend: Backend) -> None:
    async with api(backend) as web:
        dead, asking = await web.one.dead(), await web.one.asking()
        said = await web.post("/api/bulk/requeue", WORD | {"ids": [dead, asking]})
        assert [one["accepted"] for one in said["items"]] == [True, False]
        assert (await web.get(f"/api/jobs/{dead}"))["status"] == "pending"
        assert (await web.get(f"/api/jobs/{asking}"))["status"] == "waiting"
        assert ("dead.requeue", dead) in [
            (act["what"], act["object"]) for act in (await web.get("/api/audit"))["items"]
        ]


@pytest.mark.parametrize(
    "ids, code",
    [
        ([], "invalid_payload"),
        (["x"] * (BULK_MAX + 1), "invalid_payload"),
        (["SLEEPING", ""], "invalid_name"),
        (["SLEEPING", "x" * 201], "invalid_name"),
    ],
)
async def test_too_many_nobody_or_what_is_no_name_is_refused_whole(
    backend: Backend, ids: list[str], code: str
) -> None:
    async with api(backend) as web:
        sleeping = await web.one.sleeping()
        before = await web.picture()
        said = {"ids": [sleeping if one == "SLEEPING" else one for one in ids]}
        await web.refused(422, code, "POST", "/api/bulk/cancel", said)
        await web.refused(
            422, "invalid_name", "POST", "/api/bulk/cancel", {"ids": [sleeping], "operation_id": "x" * 201}
        )
        assert await web.picture() == before


@pytest.mark.parametrize("backend", STORES, indirect=True)
async def test_sessions_and_their_attachments_are_listed(backend: Backend) -> None:
    async with api(backend) as web:
        await populate(web.one.store, web.one.clock)
        (session,) = (await web.get("/api/sessions"))["items"]
        assert (session["session_id"], session["revision"], session["jobs"]) == ("s1", 1, 2)
        assert (await web.get("/api/sessions?text=nothing"))["items"] == []
        (one,) = (await web.get("/api/sessions/s1/attachments"))["items"]
        assert (one["attachment_id"], one["uri"], one["intent_at"]) == ("a1", "sha256:a1", 1)
        assert one["committed_at"] is not None
