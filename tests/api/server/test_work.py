"""Work over HTTP: submitted once, held by one, ended by its holder, lost by nobody."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, cast

import pytest

from holdfast.engine.verify.verify import verify
from holdfast.model.lease import TAKEOVERS_MAX, Grant
from holdfast.model.time import DAY, MINUTE, SECOND, to_iso
from holdfast.store.ports.leases import ClaimRequest
from holdfast.testing.conformance.harness import Backend
from tests.api.server.api import Api, api

if TYPE_CHECKING:
    from holdfast.engine.verify.verify import Inspectable

pytestmark = pytest.mark.store("sqlite")

WORK = {"description": "Sum it up.", "capability": "summarize", "boundary": "acme", "priority": 7}
ANT = {
    "guid": "ant-1",
    "handle": "ant",
    "agentType": "claude",
    "capabilities": ["summarize"],
    "boundaries": ["acme"],
    "maxConcurrentTasks": 3,
}
BEE = ANT | {"guid": "bee-1", "handle": "bee"}


async def ready(web: Api, *agents: dict[str, Any], **work: Any) -> str:
    """Registered agents and one work item; its id."""
    for agent in agents or (ANT, BEE):
        await web.post("/api/agents/register", agent)
    made = await web.post("/api/work", WORK | work)
    return str(made["id"])


async def claim(web: Api, guid: str = "ant-1", **more: Any) -> list[dict[str, Any]]:
    items: list[dict[str, Any]] = (await web.post("/api/work/claim", {"guid": guid, **more}))["items"]
    return items


def held(item: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"fence": item["fence"], "leaseToken": item["leaseToken"], **more}


async def clean(web: Api) -> None:
    assert [str(one) for one in (await verify(cast("Inspectable", web.one.store))).violations] == []


# ── one item ──────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("request_lease, seconds", [({}, 60), ({"leaseSeconds": 90}, 90)])
async def test_a_claim_says_for_how_long_its_lease_holds(
    backend: Backend, request_lease: dict[str, Any], seconds: int
) -> None:
    async with api(backend) as web:
        await web.post("/api/agents/register", ANT)
        await web.post("/api/work", WORK)
        (item,) = await claim(web, **request_lease)
        assert item["leaseSeconds"] == seconds


async def test_work_goes_from_submitted_to_completed(backend: Backend) -> None:
    async with api(backend) as web:
        await web.post("/api/agents/register", ANT)
        first = await web.ask("POST", "/api/work", WORK | {"contextData": {"page": 3}, "projectId": "hill"})
        made = first.json()
        assert first.status_code == 201
        assert first.headers["location"] == f"/api/work/{made['id']}"
        assert (made["id"], made["status"], made["assignedTo"]) == (made["workItemId"], "pending", None)
        assert await web.get(f"/api/work/{made['id']}") == made
        (item,) = await claim(web)
        assert (item["description"], item["contextData"], item["attempt"]) == ("Sum it up.", {"page": 3}, 1)
        where = f"/api/work/{made['id']}"
        taken = await web.get(where)
        assert (taken["status"], taken["assignedTo"], taken["progress"]) == ("assigned", "ant-1", None)
        await web.post(f"{where}/progress", held(item, progress=40, note="half"))
        seen = await web.get(where)
        assert (seen["status"], seen["progress"], seen["progressNote"]) == ("in-progress", 40, "half")
        result = {"summary": "short", "output": [1, 2], "artifacts": []}
        done = await web.post(f"{where}/complete", held(item, result=result))
        assert (done["status"], done["result"], done["assignedTo"]) == ("completed", result, "ant-1")
        assert await web.get(where) == done
        again = await web.post(f"{where}/complete", held(item, result=result))
        assert again == done, "a lost answer costs nothing"
        assert await claim(web) == []
        stats = await web.get("/api/stats")
        assert stats["totals"]["completedWork"] == stats["byProject"]["hill"]["completedWork"] == 1
        assert stats["totals"]["agents"] == stats["byProject"]["default"]["agents"] == 1
        await clean(web)


async def test_a_task_is_submitted_once(backend: Backend) -> None:
    async with api(backend) as web:
        first = await web.ask("POST", "/api/work", WORK | {"taskId": "t-1"})
        again = await web.ask("POST", "/api/work", WORK | {"taskId": "t-1"})
        assert (first.status_code, again.status_code) == (201, 200)
        assert first.json() == again.json()
        other = WORK | {"taskId": "t-1", "priority": 1}
        await web.refused(409, "key_reused", "POST", "/api/work", other)
        keyed = await web.ask("POST", "/api/work", WORK, Idempotency_Key="k")
        same = await web.ask("POST", "/api/work", WORK, Idempotency_Key="k")
        assert keyed.json()["id"] == same.json()["id"] != first.json()["id"]
        assert len((await web.get("/api/work"))["items"]) == 2


async def test_of_two_holders_the_newer_counts(backend: Backend) -> None:
    """Goal: fenced completion is refused after a takeover. Method: the first holder falls silent, the second takes the
    item; whatever the first says then is refused, and the completion is the second's."""
    async with api(backend) as web:
        work_id = await ready(web)
        where = f"/api/work/{work_id}"
        (old,) = await claim(web, leaseSeconds=5)
        assert await claim(web, "bee-1") == []
        web.one.clock.advance(6 * SECOND)
        (new,) = await claim(web, "bee-1")
        assert (new["id"], new["attempt"]) == (work_id, 2)
        assert new["fence"] > old["fence"]
        for verb, more in (
            ("renew", {}),
            ("progress", {"progress": 99}),
            ("complete", {"result": "mine"}),
            ("fail", {"error": {"message": "mine"}}),
            ("release", {}),
        ):
            problem = await web.refused(409, "fenced", "POST", f"{where}/{verb}", held(old, **more))
            assert "no longer leased to you" in problem["detail"]
        borrowed = {"fence": new["fence"], "leaseToken": old["leaseToken"], "result": "mine"}
        await web.refused(409, "fenced", "POST", f"{where}/complete", borrowed)
        assert (await web.post(f"{where}/complete", held(new, result="hers")))["result"] == "hers"
        await web.refused(409, "fenced", "POST", f"{where}/complete", held(old, result="mine"))
        assert (await web.get(where))["result"] == "hers"
        await clean(web)


async def test_a_lease_is_kept_by_renewing_it(backend: Backend) -> None:
    async with api(backend) as web:
        work_id = await ready(web)
        (item,) = await claim(web, leaseSeconds=5)
        for _ in range(4):
            web.one.clock.advance(4 * SECOND)
            await web.post(f"/api/work/{work_id}/renew", held(item, leaseSeconds=5))
            assert await claim(web, "bee-1") == []
        web.one.clock.advance(4 * SECOND)
        await web.post(f"/api/work/{work_id}/progress", held(item, progress=1, leaseSeconds=20))
        web.one.clock.advance(19 * SECOND)
        assert await claim(web, "bee-1") == []
        web.one.clock.advance(1 * SECOND)
        assert len(await claim(web, "bee-1")) == 1


async def test_a_lost_answer_to_a_claim_is_found_again(backend: Backend) -> None:
    async with api(backend) as web:
        work_id = await ready(web)
        (first,) = await claim(web, claimId="c-1")
        (again,) = await claim(web, claimId="c-1")
        assert (again["id"], again["fence"]) == (work_id, first["fence"])
        assert await claim(web, claimId="c-2") == []
        assert await claim(web, "bee-1", claimId="c-1") == [], "what another calls its claim is another claim"


# ── failures ──────────────────────────────────────────────────────────────────────────────────────


async def test_failures_are_tried_again_and_then_held_with_every_cause(backend: Backend) -> None:
    async with api(backend) as web:
        work_id = await ready(web)
        where = f"/api/work/{work_id}"
        for nth in range(3):
            web.one.clock.advance(2 * MINUTE)
            (item,) = await claim(web, ("ant-1", "bee-1")[nth % 2])
            assert item["attempt"] == nth + 1
            said = held(item, error={"message": f"no {nth}", "code": "ENOENT"})
            view = await web.post(f"{where}/fail", said)
            assert await web.post(f"{where}/fail", said) == view
            assert view["status"] == ("dead-letter" if nth == 2 else "pending")
        causes = (await web.get(where))["error"]["causes"]
        assert [(one["holder"], one["error"]["message"]) for one in causes] == [
            ("agent:ant-1", "no 0"),
            ("agent:bee-1", "no 1"),
            ("agent:ant-1", "no 2"),
        ]
        assert await claim(web) == []
        (dead,) = (await web.get("/api/dead-letters"))["items"]
        assert dead["job_id"] == work_id
        assert [one["id"] for one in (await web.get("/api/work?status=dead-letter"))["items"]] == [work_id]
        await web.post(f"/api/dead-letters/{work_id}/requeue", {"why": "mended", "by": "ada"})
        (item,) = await claim(web)
        assert item["attempt"] == 1
        assert (await web.post(f"{where}/complete", held(item)))["status"] == "completed"
        await clean(web)


async def test_what_cannot_be_done_has_failed(backend: Backend) -> None:
    async with api(backend) as web:
        work_id = await ready(web)
        (item,) = await claim(web)
        said = held(item, error={"message": "no such page"}, recoverable=False)
        view = await web.post(f"/api/work/{work_id}/fail", said)
        assert (view["status"], view["error"]["message"]) == ("failed", "no such page")
        await clean(web)


async def test_work_that_loses_its_holders_is_a_dead_letter(backend: Backend) -> None:
    async with api(backend) as web:
        work_id = await ready(web)
        item: dict[str, Any] = {}
        for _ in range(TAKEOVERS_MAX):
            (item,) = await claim(web, leaseSeconds=5)
            web.one.clock.advance(10 * SECOND)
        assert await claim(web) == []
        view = await web.get(f"/api/work/{work_id}")
        assert view["status"] == "dead-letter"
        assert len(view["error"]["causes"]) == TAKEOVERS_MAX
        assert {one["holder"] for one in view["error"]["causes"]} == {"agent:ant-1"}
        await web.refused(409, "fenced", "POST", f"/api/work/{work_id}/complete", held(item))
        await clean(web)


async def test_progress_is_a_sign_of_life(backend: Backend) -> None:
    """Holders that get somewhere before they are lost are not what kills it."""
    async with api(backend) as web:
        work_id = await ready(web)
        for _ in range(2 * TAKEOVERS_MAX):
            (item,) = await claim(web, leaseSeconds=5)
            await web.post(f"/api/work/{work_id}/progress", held(item, progress=10, leaseSeconds=5))
            web.one.clock.advance(10 * SECOND)
        assert len(await claim(web)) == 1


async def test_given_back_is_no_failure(backend: Backend) -> None:
    async with api(backend) as web:
        work_id = await ready(web)
        for _ in range(5):
            (item,) = await claim(web)
            view = await web.post(f"/api/work/{work_id}/release", held(item, why="I leave"))
            assert (view["status"], view["attempts"]) == ("pending", 0)
        await clean(web)


async def test_a_cancel_fences_the_holder(backend: Backend) -> None:
    async with api(backend) as web:
        work_id = await ready(web)
        where = f"/api/work/{work_id}"
        (item,) = await claim(web)
        assert (await web.post(f"{where}/cancel", {"why": "not needed", "by": "ada"}))[
            "status"
        ] == "cancelled"
        for verb in ("renew", "complete"):
            problem = await web.refused(409, "fenced", "POST", f"{where}/{verb}", held(item))
            assert "cancelled" in problem["detail"]
        pending = (await web.post("/api/work", WORK))["id"]
        assert (await web.post(f"/api/work/{pending}/cancel", {}))["status"] == "cancelled"
        assert await claim(web) == []
        await clean(web)


async def test_a_stopped_job_is_stopped_work(backend: Backend) -> None:
    """Goal: `holdfast cancel` of a job works for work, too. Method: a letter to a job that an agent elsewhere holds;
    the agent hears of it with its next word."""
    async with api(backend) as web:
        work_id = await ready(web)
        (item,) = await claim(web)
        await web.post(f"/api/jobs/{work_id}/stop", {"why": "enough", "by": "ada"})
        problem = await web.refused(409, "fenced", "POST", f"/api/work/{work_id}/renew", held(item))
        assert "cancelled" in problem["detail"]
        assert (await web.get(f"/api/work/{work_id}"))["status"] == "cancelled"
        await clean(web)


async def test_after_its_deadline_nobody_begins_it(backend: Backend) -> None:
    async with api(backend) as web:
        deadline = to_iso(web.one.clock.wall_us() + MINUTE)
        work_id = await ready(web, deadline=deadline)
        begun = (await web.post("/api/work", WORK | {"deadline": deadline, "priority": 9}))["id"]
        (item,) = await claim(web, leaseSeconds=600)
        assert item["id"] == begun
        web.one.clock.advance(MINUTE)
        assert await claim(web, "bee-1") == []
        view = await web.get(f"/api/work/{work_id}")
        assert (view["status"], view["error"]["type"]) == ("failed", "DeadlinePassed")
        done = await web.post(f"/api/work/{begun}/complete", held(item))
        assert done["status"] == "completed", "what was begun in time may end"
        await clean(web)


# ── whose it is ───────────────────────────────────────────────────────────────────────────────────


async def test_work_is_routed_by_what_is_asked(backend: Backend) -> None:
    async with api(backend) as web:
        await web.post("/api/agents/register", ANT | {"boundaries": []})
        await web.post("/api/agents/register", BEE | {"agentType": "human", "maxConcurrentTasks": 9})
        plain = {"description": "x", "capability": "summarize"}
        ids = {
            name: (await web.post("/api/work", plain | more))["id"]
            for name, more in (
                ("any", {}),
                ("acme", {"boundary": "acme"}),
                ("secret", {"boundary": "secret"}),
                ("human", {"requiredAgentType": "human"}),
                ("claude", {"requiredAgentType": "claude"}),
                ("rather", {"preferredAgentType": "robot"}),
                ("other", {"capability": "translate"}),
            )
        }
        names = {work_id: name for name, work_id in ids.items()}

        async def took(guid: str) -> list[str]:
            return sorted(names[item["id"]] for item in await claim(web, guid, limit=9))

        assert await took("bee-1") == ["acme", "any", "human"]
        assert await took("ant-1") == ["claude"]
        web.one.clock.advance(6 * SECOND)
        assert await took("ant-1") == ["rather"], "after a while a preference yields"
        left = (await web.get("/api/work?status=pending"))["items"]
        assert sorted(names[item["id"]] for item in left) == ["other", "secret"]
        (found,) = (await web.get("/api/work?boundary=secret"))["items"]
        assert found["id"] == ids["secret"]


async def test_a_claim_waits_for_work(backend: Backend) -> None:
    async with api(backend) as web:
        await web.post("/api/agents/register", ANT)
        asked, claims = asyncio.Event(), web.one.store.leases.claim

        async def watched(request: ClaimRequest) -> list[Grant]:
            granted = await claims(request)
            asked.set()
            return granted

        web.one.store.leases.claim = watched  # type: ignore[method-assign]
        waiting = asyncio.create_task(claim(web, waitSeconds=20))
        await asked.wait()
        made = await web.post("/api/work", WORK)
        (item,) = await waiting
        assert item["id"] == made["id"]


async def test_an_agent_takes_no_more_than_it_says(backend: Backend) -> None:
    async with api(backend) as web:
        await web.post("/api/agents/register", ANT)
        for _ in range(6):
            await web.post("/api/work", WORK)
        first = await claim(web, limit=2, claimId="c")
        assert len(first) == 2
        assert len(await claim(web, limit=50)) == 1, "as much as it has room for"
        assert await claim(web) == []
        assert [one["id"] for one in await claim(web, claimId="c")] == [one["id"] for one in first]
        await web.post(f"/api/work/{first[0]['id']}/complete", held(first[0]))
        assert len(await claim(web, limit=50)) == 1
        await web.refused(422, "invalid_payload", "POST", "/api/work/claim", {"guid": "ant-1", "limit": 0})
        problem = await web.refused(
            422, "invalid_payload", "POST", "/api/work/claim", {"guid": "ant-1", "capabilities": ["fly"]}
        )
        assert "fly" in problem["detail"]
        await web.refused(404, "not_found", "POST", "/api/work/claim", {"guid": "nobody"})


@pytest.mark.parametrize(
    "wrong",
    [
        {"description": ""},
        {"description": "x" * 100_001},
        {"capability": ""},
        {"capability": "a@b"},
        {"capability": "x" * 91},
        {"priority": 0},
        {"priority": 11},
        {"deadline": "tomorrow"},
        {"requiredAgentType": "a", "preferredAgentType": "b"},
        {"taskId": ""},
        {"surprise": 1},
    ],
)
async def test_bad_work_leaves_nothing_behind(backend: Backend, wrong: dict[str, Any]) -> None:
    async with api(backend) as web:
        response = await web.ask("POST", "/api/work", WORK | wrong)
        assert response.status_code == 422
        assert response.json()["hint"]
        assert (await web.get("/api/work"))["items"] == []


# ── agents ────────────────────────────────────────────────────────────────────────────────────────


async def test_an_agent_registers_beats_changes_and_leaves(backend: Backend) -> None:
    async with api(backend) as web:
        first = await web.ask("POST", "/api/agents/register", ANT)
        again = await web.ask("POST", "/api/agents/register", ANT)
        assert (first.status_code, again.status_code) == (201, 200)
        assert first.json()["registeredAt"] == again.json()["registeredAt"]
        assert (await web.get("/api/agents/ant-1"))["entry"] == again.json()
        beat = await web.post("/api/agents/ant-1/heartbeat", {"status": "busy", "currentTaskCount": 2})
        assert (beat["status"], beat["currentTaskCount"]) == ("busy", 2)
        changed = await web.ask("PATCH", "/api/agents/ant-1", {"handle": "anna"})
        assert (changed.json()["handle"], changed.json()["status"]) == ("anna", "busy"), (
            "what is left out stays"
        )
        page = await web.get("/api/agents")
        assert [(one["guid"], one["handle"]) for one in page["agents"]] == [("ant-1", "anna")]
        assert page["registry"] == {"source": "store", "connected": True, "staleSince": None, "ignored": 0}
        web.one.clock.advance(3 * MINUTE)
        assert (await web.get("/api/agents/ant-1"))["entry"]["status"] == "offline"
        assert (await web.get("/api/agents?status=online"))["agents"] == []
        assert (await web.post("/api/agents/ant-1/heartbeat", {"status": "online"}))["status"] == "online"
        web.one.clock.advance(DAY)
        assert (await web.get("/api/agents"))["agents"] == [], "a day of silence"
        await web.post("/api/agents/ant-1/heartbeat", {})
        gone = await web.ask("DELETE", "/api/agents/ant-1")
        assert gone.json() == {"guid": "ant-1", "deregistered": True}
        assert (await web.ask("DELETE", "/api/agents/ant-1")).json()["deregistered"] is False
        await web.refused(404, "not_found", "POST", "/api/agents/ant-1/heartbeat", {})


async def test_everybody_is_listed_page_by_page(backend: Backend) -> None:
    async with api(backend) as web:
        helper = await web.post("/api/agents", {"name": "helper"})
        for nth in range(5):
            agent = {"guid": f"g{nth}", "handle": f"h{nth}", "agentType": ("a", "b")[nth % 2]}
            await web.post(
                "/api/agents/register", agent | {"projectId": f"p{nth}", "capabilities": [f"c{nth}"]}
            )
        seen: list[str] = []
        hosted: list[Any] = []
        more: str | None = ""
        while more is not None:
            page = await web.get(f"/api/agents?limit=2{more}")
            seen += [one["handle"] for one in page["agents"]]
            hosted += page["items"]
            more = None if page["next"] is None else f"&cursor={page['next']}"
        assert seen == ["h0", "h1", "h2", "h3", "h4", "helper"]
        assert hosted == [helper]

        async def found(query: str) -> list[str]:
            return [one["handle"] for one in (await web.get(f"/api/agents?{query}"))["agents"]]

        assert await found("type=b") == ["h1", "h3"]
        assert await found("capability=c2") == await found("project=p2") == ["h2"]
        assert await found("type=hosted") == ["helper"]


async def test_who_may_find_whom(backend: Backend) -> None:
    async with api(backend) as web:
        for guid, visibility, project, user in (
            ("me", "private", "p1", "ada"),
            ("public", "public", "p2", "bob"),
            ("same-project", "project-only", "p1", "bob"),
            ("other-project", "project-only", "p2", "ada"),
            ("same-user", "user-only", "p2", "ada"),
            ("other-user", "user-only", "p1", "bob"),
            ("hidden", "private", "p1", "ada"),
        ):
            agent = {"guid": guid, "handle": guid, "agentType": "t", "visibility": visibility}
            await web.post("/api/agents/register", agent | {"projectId": project, "username": user})
        page = await web.get("/api/agents?for=me")
        assert {one["guid"] for one in page["agents"]} == {"me", "public", "same-project", "same-user"}
        assert {one["guid"] for one in (await web.get("/api/agents?for=stranger"))["agents"]} == {"public"}
        assert len((await web.get("/api/agents"))["agents"]) == 7
