"""S26: privileged acts are written down, chained, once, before they are answered."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import apsw
import pytest

from holdfast.errors import StoreUnavailable
from holdfast.model.access import Role
from holdfast.model.audit import find_breaks
from holdfast.model.hash_chain import EMPTY
from holdfast.model.time import MINUTE
from holdfast.server.special_routes import ENDPOINTS
from holdfast.testing.conformance.harness import Backend
from tests.api.server.test_commands import WORDS
from tests.cli.conftest import CommandDesk
from tests.security.people import ELSEWHERE, Town, town

pytestmark = pytest.mark.store("sqlite")

JOBS = "/api/jobs"
NAMED = {
    "stop": "job.cancel",
    "answer": "job.answer",
    "resume": "job.resume",
    "raise": "budget.raise",
    "reconcile": "call.reconcile",
    "approve": "call.approve",
    "deny": "call.deny",
    "requeue": "dead.requeue",
    "discard": "dead.discard",
}


async def lines(web: Town, namespace: str = "default") -> list[tuple[str, str]]:
    """What was done and to what, keys left out; the chain holds."""
    sealed = await web.one.store.audit.read(namespace=namespace, limit=1000)
    assert list(find_breaks(namespace, EMPTY, sealed)) == []
    return [(act.what, act.object) for act in await web.acts(namespace) if not act.what.startswith("key.")]


def test_s26_every_privileged_act_has_a_name() -> None:
    assert {one.audited for one in ENDPOINTS if one.audited} == set(NAMED.values())


@pytest.mark.parametrize("name", NAMED)
async def test_s26_an_act_has_its_line(backend: Backend, name: str) -> None:
    make, where, word, _ = WORDS[name]
    async with town(backend) as web:
        job_id = await make(web.one)
        said = await web.key(Role.ADMIN, name="root")
        word = {"why": "because"} | word if name != "answer" else word
        for _ in range(2):  # sent twice it is one act
            response = await web.ask(
                "POST", where.format(job_id), word, idempotency_key="op-1", x_request_id="req-7", **said
            )
            assert response.status_code < 300
        (act,) = [one for one in await web.acts() if one.what == NAMED[name]]
        assert act.object.startswith(job_id)
        assert (act.who.startswith("root ("), act.request_id, act.at) == (
            True,
            "req-7",
            backend.clock.wall_us(),
        )
        assert act.reason == word.get("why", "")
        assert f"job {job_id}" in act.detail
        assert "by ada" in act.detail
        assert "operation op-1" in act.detail


async def test_s26_without_its_line_an_act_is_not_answered(
    backend: Backend, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The store fails between the two, as a crash would; the same request again completes it."""
    async with town(backend) as web:
        job_id = await web.one.sleeping()
        said = await web.key(Role.ADMIN)
        store = web.one.store

        async def fails(_: Any) -> Any:
            raise StoreUnavailable("gone")

        with monkeypatch.context() as patched:
            patched.setattr(store.audit, "write", fails)
            await web.refused(
                503, "store_unavailable", "POST", f"{JOBS}/{job_id}/stop", {}, idempotency_key="op", **said
            )
            refused = await web.ask("GET", "/api/keys", **await web.key(Role.VIEWER))
            assert refused.status_code == 403, "a refusal stands, noted or not"
        assert (await store.jobs.head(job_id)).status == "cancelled", "the journal has it"
        assert await lines(web) == []
        again = await web.ask("POST", f"{JOBS}/{job_id}/stop", {}, idempotency_key="op", **said)
        assert (again.status_code, again.headers["idempotency-replayed"]) == (200, "true")
        assert await lines(web) == [("job.cancel", job_id)]


async def test_s26_what_was_refused_is_noted_once_a_minute(backend: Backend) -> None:
    async with town(backend) as web:
        job_id = await web.one.sleeping()
        viewer, operator = await web.key(Role.VIEWER), await web.key(Role.OPERATOR)
        theirs = await web.key(Role.ADMIN, namespace=ELSEWHERE)
        for _ in range(5):
            await web.refused(403, "forbidden", "POST", f"{JOBS}/{job_id}/stop", {}, **viewer)
            await web.refused(404, "not_found", "POST", f"{JOBS}/{job_id}/stop", {}, **theirs)
        await web.post(JOBS, {"kind": "k"}, idempotency_key="r1", **operator)
        await web.refused(
            409, "key_reused", "POST", JOBS, {"kind": "other"}, idempotency_key="r1", **operator
        )
        await web.refused(404, "not_found", "GET", f"{JOBS}/nobody", **operator)
        assert await lines(web) == [("refused.role", job_id), ("refused.other_body", "")]
        assert await lines(web, ELSEWHERE) == [("refused.not_there", job_id)]
        backend.clock.advance(MINUTE)
        await web.refused(403, "forbidden", "POST", f"{JOBS}/{job_id}/stop", {}, **viewer)
        assert len(await lines(web)) == 3


async def test_s26_an_admin_reads_its_own_log(backend: Backend) -> None:
    async with town(backend) as web:
        admin = await web.key(Role.ADMIN)
        for n in range(4):
            await web.key(Role.VIEWER, name=f"k{n}")
        await web.key(Role.VIEWER, namespace=ELSEWHERE, name="theirs")
        log = await web.get("/api/audit", **admin)
        assert [one["what"] for one in log["items"]] == ["key.create"] * 6
        assert (log["next"], log["head"]) == (None, log["items"][-1]["hash"])
        assert "theirs" not in str(log)
        page = await web.get("/api/audit?after=2&limit=2", **admin)
        assert ([one["seq"] for one in page["items"]], page["next"]) == ([3, 4], 4)


@pytest.mark.parametrize(
    "damage",
    [
        "UPDATE audit_acts SET what = 'nothing' WHERE seq = 2",
        "DELETE FROM audit_acts WHERE seq = 2",
        "DELETE FROM audit_acts WHERE seq = 3",
    ],
)
def test_s26_the_command_notices_a_changed_log(desk: CommandDesk, damage: str) -> None:
    desk.live(lambda one: one.sleeping())
    for name in ("a", "b", "c"):
        made = desk.type("api-key", "create", "--role", "viewer", "--name", name, "--why", f"for {name}")
        assert made.status == 0
    fine = desk.type("audit", "--last", "2", "--json")
    assert ([one["seq"] for one in fine.lines], fine.status) == ([2, 3], 0)
    assert "for c" in desk.type("audit").out
    assert desk.type("db", "verify").status == 0
    connection = apsw.Connection(str(Path(desk.where.removeprefix("sqlite:///"))))
    with pytest.raises(apsw.Error, match="append-only"):
        connection.execute(damage)
    connection.execute("DROP TRIGGER acts_are_not_changed; DROP TRIGGER acts_are_not_removed")
    connection.execute(damage)
    connection.close()
    broken = desk.type("audit")
    assert (broken.status, "was changed" in broken.err) == (1, True)
    assert desk.type("db", "verify").status == 1
