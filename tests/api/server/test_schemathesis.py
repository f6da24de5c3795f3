"""The API, asked everything that its own description allows and much that it forbids, by a real schemathesis against a
real server with jobs in every state: nothing breaks, and every answer is as described."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.api.client.job_states import Lives
from tests.api.server.test_serve import serving
from tests.cli.conftest import CommandDesk, desk

__all__ = ["desk"]

pytestmark = pytest.mark.store("sqlite")

CHECKS = (
    "not_a_server_error",
    "status_code_conformance",
    "content_type_conformance",
    "response_headers_conformance",
    "response_schema_conformance",
    "negative_data_rejection",
    "missing_required_header",
    "unsupported_method",
    "allow_header_conformance",
    "ensure_resource_availability",
)
LEFT_OUT = ("stream_job", "follow_feed", "follow_jobs")
"""A stream of a job that is not over has no end, nor have the feeds; tests/api/server reads them."""

QUICK = ("--max-examples", "8", "--phases", "examples,coverage,fuzzing")
LONG = ("--max-examples", "100", "--max-time", "240")

# Half of the ids are those of jobs and sessions that exist, so that requests come further than "no such thing". Nobody
# waits for jobs that no worker drives.
CONFIG = """
[dictionaries.ids]
values = {ids}

[dictionaries.steps]
values = {steps}

[parameters]
"path.id" = {{ dictionary = "ids", probability = 0.6 }}
"path.key" = {{ dictionary = "steps", probability = 0.6 }}

[[operations]]
include-operation-id = "get_job"
parameters = {{ "query.wait_ms" = 0 }}
"""


@pytest.mark.timeout(300)
def test_what_the_description_allows_and_forbids(desk: CommandDesk, tmp_path: Path) -> None:
    assert failures(desk, tmp_path, QUICK) == []


@pytest.mark.chaos
@pytest.mark.timeout(600)
@pytest.mark.parametrize("desk", ["sqlite", "postgres"], indirect=True)
@pytest.mark.parametrize("seed", [1, 2])
def test_for_minutes(desk: CommandDesk, tmp_path: Path, seed: int) -> None:
    assert failures(desk, tmp_path, (*LONG, "--seed", str(seed))) == []


def failures(desk: CommandDesk, folder: Path, how: tuple[str, ...]) -> list[Any]:
    """What was answered wrongly; every endpoint was asked, and not only once."""
    ids = desk.live(_all_states)
    config = CONFIG.format(ids=json.dumps(ids), steps=json.dumps(["0/pay#1", "0/look#1"]))
    (folder / "schemathesis.toml").write_text(config, encoding="utf-8")
    made = desk.type(
        "api-key", "create", "--role", "admin", "--name", "asker", "--why", "to ask all", "--json"
    )
    with serving(desk.where, "--require-key") as (server, url):
        done = subprocess.run(
            [
                *(sys.executable, "-m", "schemathesis.cli", "--config-file", "schemathesis.toml"),
                *("run", "--header", f"Authorization: Bearer {made.json['key']}"),
                *(f"{url}/api/openapi.json", "--url", url, "--checks", ",".join(CHECKS)),
                *("--report-json-path", "report.json", "--continue-on-failure", "--seed", "7", *how),
                *(part for name in LEFT_OUT for part in ("--exclude-operation-id", name)),
            ],
            cwd=folder,
            env=os.environ | {"HYPOTHESIS_STORAGE_DIRECTORY": str(folder / "hypothesis"), "COLUMNS": "160"},
            capture_output=True,
            text=True,
            check=False,
        )
        assert server.poll() is None, "the server is still there"
    told = done.stdout[-12_000:] + done.stderr[-4000:]
    assert done.returncode == 0, told
    report: dict[str, Any] = json.loads((folder / "report.json").read_text(encoding="utf-8"))
    asked = report["operations"]
    assert asked["tested"] == asked["total"] - len(LEFT_OUT) > 0, "every endpoint was asked"
    assert report["test_cases"]["generated"] > 20 * asked["tested"], "and not only once"
    return [*report["failures"], *report["errors"]]


async def _all_states(one: Lives) -> list[str]:
    return [
        await one.uncertain(),
        await one.finished(),
        await one.dead(),
        await one.parked(),
        await one.sleeping(),
        await one.stopped(children=1),
        await one.asking(),
    ]
