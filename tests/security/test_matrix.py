"""S5, S6: every endpoint × every role × own and foreign namespace, from the table of endpoints itself.

Things are in one namespace; each role has a key there and a key elsewhere. What a role may do follows from the scope
that the endpoint declares. An endpoint that declares none, or whose things the matrix does not know how to make, fails.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, NamedTuple
from urllib.parse import quote

import httpx2
import pytest

from holdfast.engine.execution import Execution
from holdfast.engine.questions import Question, ask
from holdfast.model.access import GRANTS, AccessScope, Role
from holdfast.model.configured_agents import Configuration, HostedAgent
from holdfast.model.inbox import BatchDraft, ItemDraft
from holdfast.model.jobs import JobFilter
from holdfast.model.worker_presence import Presence, WorkerOffer
from holdfast.server.openapi import _PART
from holdfast.server.router import Endpoint
from holdfast.server.special_routes import ENDPOINTS
from holdfast.server.special_routes import get_openapi as document
from holdfast.testing.conformance.harness import Backend
from tests.api.client.job_states import Lives
from tests.api.client.test_agents import CLERK, answered
from tests.security.people import ELSEWHERE, HERE, SESSION, Town, town
from tests.support.fixtures.populated import populate

pytestmark = pytest.mark.store("sqlite")

SECRET = "a-word-that-is-only-here"


class Sample(NamedTuple):
    """What a request of an endpoint is about: its path's parts, and a body that fits."""

    parts: dict[str, str]
    body: Any = None


async def asks(drive: Execution, _: Any) -> Any:
    return await ask(drive, Question(SECRET, {"type": "boolean"}), lambda said: isinstance(said, bool))


async def asking(web: Town) -> Sample:
    job_id = await web.one.submit(asks)
    assert await (await web.one.claim()).go() == "waiting"
    return Sample({"id": job_id}, {"answer": True, "by": "ada"})


def job(make: Callable[[Lives], Awaitable[str]], body: Any = None, **more: str) -> Callable[[Town], Any]:
    async def made(web: Town) -> Sample:
        return Sample({"id": await make(web.one)} | more, body)

    return made


async def over(web: Town) -> Sample:
    job_id = await web.one.sleeping()
    await web.one.client.cancel(job_id)
    return Sample({"id": job_id})


async def forked(web: Town) -> Sample:
    job_id = await web.one.finished()
    return Sample({"id": job_id}, {"at": 3})


async def session(web: Town) -> Sample:
    await populate(web.one.store, web.one.clock)
    return Sample({"id": SESSION})


async def batch(web: Town) -> Sample:
    draft = BatchDraft(session_id=SESSION, items=(ItemDraft("turn_input", SECRET),), batch_id="b9")
    await web.one.store.inbox.enqueue(draft)
    return Sample({"id": SESSION, "batch_id": "b9"}, {"items": [{"kind": "turn_input"}]})


async def key(web: Town) -> Sample:
    said = await web.key(Role.VIEWER, name=SECRET)
    return Sample({"id": said["authorization"].removeprefix("Bearer hf_").partition(".")[0]}, {"why": "old"})


async def present(web: Town) -> Sample:
    await web.one.store.presences.beat(
        Presence(worker=SECRET, identity="i", host="h", pid=1, offer=WorkerOffer(kinds=("k",), drains=True))
    )
    return Sample({"id": SECRET}, WORD)


async def hosted(web: Town) -> Sample:
    agent = HostedAgent(agent_id="agent-1", name=SECRET, configuration=Configuration())
    await web.one.store.agents.create(agent)
    said = await web.one.client.message(SECRET, "hello", session_id=SESSION)
    return Sample({"id": "agent-1", "job": said.job_id}, {"text": "hello"})


async def replied(web: Town) -> Sample:
    await web.one.store.presences.beat(CLERK)
    said = await web.one.client.message("clerk", SECRET)
    await answered(web.one)
    return Sample({"id": said.job_id})


async def scheduled(web: Town) -> Sample:
    await web.one.client.create_schedule("daily", "k", "0 8 * * *", input=SECRET)
    return Sample({"id": "daily"}, {})


async def limited(web: Town) -> Sample:
    await web.one.client.limit_queue("slow", depth_max=3)
    return Sample({"queue": "slow"}, {"depth_max": 5})


async def counted(web: Town) -> Sample:
    await web.one.sleeping()
    return Sample({"much": '"total":1'})


async def kinds(web: Town) -> Sample:
    await web.one.client.submit(SECRET)
    return Sample({"kind": SECRET})


async def talking(web: Town) -> Sample:
    await populate(web.one.store, web.one.clock)
    return Sample({"session": f'"session_id":"{SESSION}"'})


def many(make: Callable[[Lives], Awaitable[str]]) -> Callable[[Town], Any]:
    async def made(web: Town) -> Sample:
        return Sample({}, WORD | {"ids": [await make(web.one)]})

    return made


ENTRY = {"guid": "ant-1", "agent_type": "t", "capabilities": ("dig",)}


async def entered(web: Town) -> Sample:
    await web.one.client.register_agent(SECRET, **ENTRY)  # type: ignore[arg-type]
    return Sample({"id": "ant-1"}, {"status": "busy"})


async def changing(web: Town) -> Sample:
    return Sample((await entered(web)).parts, {"handle": SECRET})


def work(body: Any = None) -> Callable[[Town], Awaitable[Sample]]:
    """Work that an agent holds; `body` says more about it."""

    async def made(web: Town) -> Sample:
        await entered(web)
        client = web.one.client
        work_id = (await client.submit_work(SECRET, "dig")).id
        (item,) = await client.claim_work("ant-1")
        held = {"fence": item.fence, "leaseToken": item.lease_token}
        return Sample({"id": work_id}, held if body is None else body(held))

    return made


async def claiming(web: Town) -> Sample:
    await entered(web)
    return Sample({}, {"guid": "ant-1"})


def new(body: Any, shown: str = "") -> Callable[[Town], Any]:
    """Something that is not there yet; `shown` is what is seen by whoever may see it."""

    async def made(_: Town) -> Sample:
        return Sample({"shown": shown} if shown else {}, body)

    return made


WORD = {"by": "ada", "why": "because"}
SAMPLES: dict[str, Callable[[Town], Awaitable[Sample]]] = {
    "submit_job": new({"kind": "k"}),
    "list_jobs": job(Lives.sleeping),
    "get_job": job(Lives.sleeping),
    "fork_job": forked,
    "list_events": job(Lives.sleeping),
    "get_trace": job(Lives.sleeping),
    "verify_job": job(Lives.sleeping),
    "export_job": job(Lives.sleeping),
    "stream_job": over,
    "cancel_job": job(Lives.sleeping, WORD),
    "signal_job": job(Lives.sleeping, {"name": "paid", "by": "ada"}),
    "answer_job": asking,
    "resume_job": job(Lives.parked, WORD | {"choice": "accept"}),
    "raise_budget": job(Lives.stopped, WORD | {"limits": {"tool_calls": 9}}),
    "reconcile_step": job(Lives.uncertain, WORD | {"decision": "skip"}, key="0/pay#1", step_key="0/pay#1"),
    "list_needs": asking,
    "list_approvals": job(Lives.asking),
    "approve_call": job(Lives.asking, WORD),
    "deny_call": job(Lives.asking, WORD),
    "list_dead_letters": job(Lives.dead),
    "requeue_dead_letter": job(Lives.dead, WORD),
    "discard_dead_letter": job(Lives.dead, WORD),
    "get_session": session,
    "list_inbox": batch,
    "enqueue_batch": batch,
    "cancel_batch": batch,
    "list_keys": key,
    "make_key": new({"name": "new", "roles": ["viewer"], "why": "for a test"}),
    "revoke": key,
    "list_workers": present,
    "drain_worker": present,
    "metrics": new(None, "holdfast_store_up"),
    "create_agent": new({"name": "new"}),
    "list_agents": hosted,
    "get_agent": hosted,
    "message_agent": hosted,
    "list_agent_jobs": hosted,
    "get_reply": replied,
    "preview_replay": job(Lives.sleeping),
    "create_schedule": new({"id": "new", "kind": "k", "cron": "0 8 * * *"}),
    "list_schedules": scheduled,
    "get_schedule": scheduled,
    "remove_schedule": scheduled,
    "pause_schedule": scheduled,
    "resume_schedule": scheduled,
    "list_queues": limited,
    "limit_queue": limited,
    "unlimit_queue": limited,
    "list_namespaces": new(None, HERE),
    "create_namespace": new({"namespace": "new"}),
    "get_stats": job(Lives.sleeping),
    "register_agent": new({"handle": "new", "agentType": "t"}),
    "heartbeat_agent": entered,
    "update_agent": changing,
    "deregister_agent": entered,
    "submit_work": new({"description": "x", "capability": "dig"}),
    "list_work": work(),
    "follow_feed": work(),
    "get_work": work(),
    "claim_work": claiming,
    "renew_work": work(),
    "progress_work": work(lambda held: held | {"progress": 5}),
    "complete_work": work(lambda held: held | {"result": 1}),
    "fail_work": work(lambda held: held | {"error": {"message": "no"}}),
    "release_work": work(),
    "cancel_work": work(lambda _: {"why": "enough"}),
    "list_audit": key,
    "get_numbers": kinds,
    "follow_jobs": job(Lives.sleeping),
    "who_am_i": new(None, f'"namespace":"{HERE}"'),
    "tally_jobs": counted,
    "name_jobs": kinds,
    "list_sessions": talking,
    "list_attachments": session,
    "cancel_many": many(Lives.sleeping),
    "requeue_many": many(Lives.dead),
    "preview_fork": job(Lives.finished),
    "get_step": job(Lives.uncertain, None, key="0/pay#1", step_key="0/pay#1"),
}
OWN_NAMES = {
    "list_attachments",
    "list_inbox",
    "enqueue_batch",
    "limit_queue",
    "unlimit_queue",
    "deregister_agent",
}
"""Names in these paths are the caller's own to give: the same name elsewhere is another thing, and empty."""


def named(endpoint: Endpoint) -> str:
    return f"{endpoint.method} {endpoint.path}"


def expected(endpoint: Endpoint, role: Role, *, foreign: bool) -> set[int]:
    """What this role is answered, by the table alone."""
    talks = endpoint.session is not None and role is Role.AGENT
    if (endpoint.scope not in GRANTS[role] and not talks) or (foreign and endpoint.shared):
        return {403}
    if foreign and ("{" in endpoint.path or endpoint.name == "claim_work") and endpoint.name not in OWN_NAMES:
        return {404}
    return {status for status in endpoint.statuses if status < 300}


def test_s05_every_endpoint_says_what_it_needs() -> None:
    silent = [f"{one.method} {one.path}" for one in ENDPOINTS if one.scope is None]
    assert not silent, f"these declare no scope: {', '.join(silent)}"
    known = set(SAMPLES)
    unknown = [one.name for one in ENDPOINTS if one.scope is not AccessScope.PUBLIC and one.name not in known]
    assert not unknown, f"tell the matrix what these are about (SAMPLES): {', '.join(unknown)}"
    assert known == {one.name for one in ENDPOINTS if one.scope is not AccessScope.PUBLIC}


def test_s05_the_document_says_the_same() -> None:
    paths = document()["paths"]
    assert document()["components"]["securitySchemes"]["key"]["scheme"] == "bearer"
    for one in ENDPOINTS:
        operation = paths[_PART.sub(r"{\1}", one.path)][one.method.lower()]
        public = one.scope is AccessScope.PUBLIC
        assert operation["security"] == ([] if public else [{"key": [one.scope]}]), one.path
        assert ({"401", "403"} <= set(operation["responses"])) == (not public), one.path


def test_s05_roles_add_up_to_what_the_page_says() -> None:
    """Every scope is somebody's, nobody but an admin has all, and a worker or an agent reads nothing."""
    assert set().union(*GRANTS.values()) == set(AccessScope)
    assert [role for role in Role if AccessScope.ADMIN in GRANTS[role]] == [Role.ADMIN]
    assert {role for role in Role if AccessScope.READ in GRANTS[role]} == set(Role) - {
        Role.WORKER,
        Role.AGENT,
    }
    assert {role for role in Role if AccessScope.DECIDE in GRANTS[role]} == {Role.APPROVER, Role.ADMIN}
    assert {role for role in Role if AccessScope.OPERATE in GRANTS[role]} == {Role.OPERATOR, Role.ADMIN}


GUARDED = [one for one in ENDPOINTS if one.scope is not AccessScope.PUBLIC]
OPEN = [one for one in ENDPOINTS if one.scope is AccessScope.PUBLIC]


@pytest.mark.parametrize("endpoint", OPEN, ids=named)
async def test_s05_what_is_public_needs_no_key(backend: Backend, endpoint: Endpoint) -> None:
    async with town(backend) as web:
        for said in ({}, await web.key(Role.WORKER), {"authorization": "Bearer nonsense"}):
            assert (await asked(web, endpoint, Sample({}), said)).status_code == 200


@pytest.mark.parametrize("endpoint", GUARDED, ids=named)
async def test_s05_s06_whom_it_refuses(backend: Backend, endpoint: Endpoint) -> None:
    """Nobody, everybody from elsewhere, and here each role that has not the scope. Nothing changes, nothing is told."""
    async with town(backend) as web:
        sample = await SAMPLES[endpoint.name](web)
        mine = {role: await web.key(role) for role in Role}
        theirs = {role: await web.key(role, namespace=ELSEWHERE) for role in Role}
        before = await seen(web)
        for said in ({}, {"authorization": "Bearer nonsense"}):
            assert (await asked(web, endpoint, sample, said)).status_code == 401
        for role in Role:
            away = await asked(web, endpoint, sample, theirs[role])
            assert away.status_code in expected(endpoint, role, foreign=True), (role, away.text)
            assert SECRET not in away.text
            assert "{" in endpoint.path or not any(part in away.text for part in sample.parts.values())
        for role in Role:
            if expected(endpoint, role, foreign=False) == {403}:
                here = await asked(web, endpoint, sample, mine[role])
                assert (here.status_code, here.json()["code"]) == (403, "forbidden"), role
                assert f"'{endpoint.scope}'" in here.json()["detail"]
                assert (await web.acts())[-1].what == "refused.role"
            elif endpoint.session is not None and role is Role.AGENT:
                other = Sample(sample.parts | {endpoint.session: "s2"}, sample.body)
                assert (await asked(web, endpoint, other, mine[role])).status_code == 404
        assert await seen(web) == before


@pytest.mark.parametrize(
    "endpoint, role",
    [(one, role) for one in GUARDED for role in Role if 403 not in expected(one, role, foreign=False)],
    ids=lambda one: one if isinstance(one, Role) else named(one),
)
async def test_s05_s06_whom_it_answers(backend: Backend, endpoint: Endpoint, role: Role) -> None:
    async with town(backend) as web:
        sample = await SAMPLES[endpoint.name](web)
        here = await asked(web, endpoint, sample, await web.key(role))
        assert here.status_code in expected(endpoint, role, foreign=False), here.text
        if "{" not in endpoint.path and endpoint.method == "GET" and endpoint.name != "get_stats":
            assert any(part in here.text for part in sample.parts.values()), "who may see it does"


async def asked(web: Town, endpoint: Endpoint, sample: Sample, said: dict[str, str]) -> Any:
    parts = {
        one: sample.parts.get(one, sample.parts.get("id", "")) for one, _ in _PART.findall(endpoint.path)
    }
    path = _PART.sub(lambda found: quote(parts[found[1]], safe=""), endpoint.path)
    body = {} if endpoint.body is None else {"body": sample.body}
    if endpoint.name in {"follow_feed", "follow_jobs"}:
        return await _first_of_feed(web, path, said)
    return await web.ask(endpoint.method, path, **body, **said)


async def _first_of_feed(web: Town, path: str, said: dict[str, str]) -> httpx2.Response:
    """The answer as far as its first event, if there is one: the feed has no end."""
    async with web.http.stream("GET", f"{path}?after=0", headers=said) as response:
        text = ""
        if response.status_code != 200:
            text = (await response.aread()).decode()
        else:
            async for line in response.aiter_lines():
                text += line
                if line.startswith("data:") or ("still here" in line and await _is_empty(web, path, said)):
                    break
        return httpx2.Response(response.status_code, text=text, headers={"content-type": "application/json"})


async def _is_empty(web: Town, path: str, said: dict[str, str]) -> bool:
    """Whether there is nothing that this reader could be told."""
    what = "/api/jobs" if path.endswith("/jobs") else "/api/work"
    return not (await web.get(what, **said))["items"]


async def seen(web: Town) -> Any:
    """Everything of the one namespace that a stranger must leave as it was."""
    store = web.one.store
    jobs = [record.job_id for record in await store.jobs.list(JobFilter(namespace=HERE))]
    return (
        [await store.jobs.head(job_id) for job_id in jobs],
        [await store.post.read(job_id) for job_id in jobs],
        await store.inbox.list(SESSION),
        [(one.key_id, one.revoked_at) for one in await store.keys.list(namespace=HERE)],
        await store.presences.list(),
    )
