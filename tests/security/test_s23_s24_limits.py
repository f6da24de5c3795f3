"""S23 and S24: nothing is endless, and nobody gets it all."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import httpx2
import msgspec
import pytest

from holdfast.model.access import Role
from holdfast.model.limits import (
    BODY_BYTES_MAX,
    EVENTS_PER_PAGE_MAX,
    HEADER_BYTES_MAX,
    JOB_STEPS_MAX,
    JOURNAL_BYTES_MAX,
    KIB,
    MIB,
    STREAMS_PER_KEY_MAX,
)
from holdfast.model.queue_limits import QueueLimits
from holdfast.model.time import SECOND
from holdfast.model.token_bucket import Rate
from holdfast.server.settings import Rates, Settings
from holdfast.testing.conformance.harness import Backend
from tests.api.server.api import must_fit
from tests.security.people import ELSEWHERE, town
from tests.security.test_s07_tls import serving

pytestmark = pytest.mark.store("sqlite")

JOBS = "/api/jobs"
WIDE = Rate(1_000_000, 1_000_000)


def test_s23_the_limits_are_what_was_decided() -> None:
    settings = Settings()
    assert (settings.body_bytes_max, BODY_BYTES_MAX) == (1 * MIB, 1 * MIB)
    assert (settings.header_bytes_max, HEADER_BYTES_MAX) == (16 * KIB, 16 * KIB)
    assert (settings.streams_max, STREAMS_PER_KEY_MAX) == (100, 100)
    assert (EVENTS_PER_PAGE_MAX, JOB_STEPS_MAX, JOURNAL_BYTES_MAX) == (1_000, 10_000, 50 * MIB)


async def test_s23_a_body_a_head_and_a_page_end(backend: Backend) -> None:
    async with town(backend) as web:
        said = await web.key(Role.ADMIN)
        large = b'{"kind":"' + b"k" * BODY_BYTES_MAX + b'"}'
        await web.refused(413, "too_large", "POST", JOBS, content=large, **said)
        await web.refused(431, "not_allowed", "GET", JOBS, x_large="x" * HEADER_BYTES_MAX, **said)
        for path in (f"{JOBS}?limit=1001", "/api/keys?limit=1001", "/api/audit?limit=1001"):
            await web.refused(422, "invalid_payload", "GET", path, **said)


async def test_s23_a_key_has_so_many_streams_and_no_other_pays_for_them(backend: Backend) -> None:
    async with town(backend, Settings(streams_max=2)) as web:
        job_id = await web.one.sleeping()
        one, other = await web.key(Role.VIEWER, name="same"), await web.key(Role.VIEWER, name="same")
        path = f"{JOBS}/{job_id}/stream"
        async with (
            web.http.stream("GET", path, headers=one) as first,
            web.http.stream("GET", path, headers=one) as second,
        ):
            assert (first.status_code, second.status_code) == (200, 200)
            third = await web.http.get(path, headers=one)
            must_fit(third)
            assert (third.status_code, "retry-after" in third.headers) == (429, True)
            async with web.http.stream("GET", path, headers=other) as theirs:
                assert theirs.status_code == 200


@pytest.mark.parametrize("whose", ["per_key", "per_namespace"])
@pytest.mark.parametrize(
    "what, method, path",
    [("requests", "GET", JOBS), ("submissions", "POST", JOBS), ("bytes", "POST", JOBS)],
)
async def test_s24_who_asks_too_much_waits(
    backend: Backend, whose: str, what: str, method: str, path: str
) -> None:
    """Two fit, the third waits as long as it is told, and nobody else notices."""
    small = {"requests": Rate(1, 2), "submissions": Rate(1, 2), "bytes": Rate(100, 150)}
    rates = Rates(**{name: small[name] if name == what else WIDE for name in small})
    settings = msgspec.structs.replace(Settings(), **{whose: rates})
    async with town(backend, settings) as web:
        one, same = await web.key(Role.OPERATOR), await web.key(Role.OPERATOR)
        other = await web.key(Role.OPERATOR, namespace=ELSEWHERE)
        body: dict[str, Any] = {} if method == "GET" else {"body": {"kind": "k" * 80}}
        answers = [await web.ask(method, path, **body, **one) for _ in range(3)]
        assert [answer.status_code // 100 for answer in answers] == [2, 2, 4]
        refused = answers[-1]
        assert (refused.status_code, refused.json()["code"], refused.json()["retry"]) == (429, "busy", True)
        assert what in refused.json()["detail"]
        wait_s = int(refused.headers["retry-after"])
        assert wait_s >= 1
        shared = await web.ask(method, path, **body, **same)
        assert (shared.status_code == 429) == (whose == "per_namespace")
        assert (await web.ask(method, path, **body, **other)).status_code < 300
        if what != "requests":
            assert (await web.ask("GET", JOBS, **one)).status_code == 200, "looking is not what was too much"
        assert (await web.http.get("/health/live")).status_code == 200
        backend.clock.advance(wait_s * SECOND)
        assert (await web.ask(method, path, **body, **one)).status_code < 300


async def test_s24_nothing_of_what_was_too_much_is_kept(backend: Backend) -> None:
    async with town(backend, Settings(per_key=Rates(submissions=Rate(1, 1)))) as web:
        said = await web.key(Role.OPERATOR)
        await web.post(JOBS, {"kind": "k", "id": "j1"}, **said)
        before = await web.picture()
        await web.refused(429, "busy", "POST", JOBS, {"kind": "k", "id": "j2"}, **said)
        await web.refused(429, "busy", "POST", "/api/sessions/s1/inbox", {"items": [{"kind": "a"}]}, **said)
        assert await web.picture() == before


async def test_s24_a_full_queue_says_when_to_come_back(backend: Backend) -> None:
    async with town(backend) as web:
        await web.one.store.queues.limit(QueueLimits(queue="default", depth_max=0))
        said = await web.key(Role.OPERATOR)
        answer = await web.ask("POST", JOBS, {"kind": "k"}, **said)
        assert (answer.status_code, answer.json()["code"]) == (429, "busy")
        assert int(answer.headers["retry-after"]) == answer.json()["details"]["retry_after_s"] == 5


def test_s24_rates_are_said_to_the_server(tmp_path: Path) -> None:
    where = ("--store", f"sqlite:///{tmp_path / 'h.db'}")
    with serving(*where, "--per-key", "requests=1:3", "--per-namespace", "bytes=5") as url:
        with httpx2.Client(base_url=url, trust_env=False) as http:
            statuses = [http.get(JOBS).status_code for _ in range(30)]
        assert statuses[:3] == [200, 200, 200]
        assert 429 in statuses
    for wrong in ("requests", "requests=0", "luck=3", "requests=many"):
        refused = subprocess.run(
            [sys.executable, "-m", "holdfast", "serve", *where, "--per-key", wrong],
            capture_output=True,
            timeout=60,
            check=False,
        )
        assert refused.returncode == 2, wrong
