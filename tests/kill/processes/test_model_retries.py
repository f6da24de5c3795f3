"""Goal: retries and timeouts of requests to models are declared, recorded and shown, and per name in a policy file.
Method: an application under `holdfast worker` that is killed, and a provider with a log of its own."""

from __future__ import annotations

import re
from typing import Any

import pytest

from tests.kill.processes.provider import Provider
from tests.kill.processes.stage import KILL, Stage
from tests.kill.processes.test_undurable_code import until_dead_letter
from tests.support.project import ROOT

pytestmark = pytest.mark.timeout(180)

APP = ROOT / "tests/kill/processes/model_retry_app.py"


@pytest.fixture(autouse=True)
def application(stage: Stage, provider: Provider) -> None:
    stage.environment["PROVIDER"] = provider.url


async def retries(stage: Stage, job_id: str = "job") -> list[Any]:
    return [event for event in await stage.events(job_id) if event.type == "call_retried"]


async def test_every_failed_attempt_is_on_record_and_shown(stage: Stage, provider: Provider) -> None:
    provider.failures = [429, 503]
    await stage.worker(APP)
    await stage.submit("asks", client="quick", question="why")
    assert await stage.completed() == "answer to why"
    assert provider.statuses == [429, 503, 200]
    first, second = await retries(stage)
    assert [(one.body["attempt"], one.body["attempts"]) for one in (first, second)] == [(1, 3), (2, 3)]
    assert [one.body["error"]["type"] for one in (first, second)] == ["RateLimitError", "InternalServerError"]
    shown = re.sub(r"\s+", " ", await stage.holdfast("trace", "job"))
    assert re.search(r"Attempt 1 of 3 failed: RateLimitError: Error code: 429 .*; next at \d{4}-", shown)
    assert "Attempt 2 of 3 failed: InternalServerError" in shown


async def test_after_a_kill_in_the_pause_the_count_goes_on(stage: Stage, provider: Provider) -> None:
    """Four attempts in all, whoever makes them, and none before its time."""
    provider.failures = [503] * 9
    first = await stage.worker(APP)
    await stage.submit("asks", client="patient", question="why")
    await stage.until_recorded("call_retried", 2)
    await first.end(KILL)
    await stage.worker(APP)
    assert await stage.completed() == "InternalServerError"
    assert provider.statuses == [503] * 4
    assert [one.body["attempt"] for one in await retries(stage)] == [1, 2, 3]
    for retried, asked in zip(await retries(stage), provider.log[1:], strict=True):
        assert asked.at_us >= retried.body["next_at"], "not before its time"


@pytest.mark.parametrize(
    "client, failures, statuses, outcome",
    [
        ("quick", [400], [400], "BadRequestError"),
        ("never", [429, 429], [429], "RateLimitError"),
        ("on", [400, 400], [400, 400, 200], "answer to why"),
        ("on", [503], [503], "InternalServerError"),
        ("own", [500] * 9, [500, 500], "InternalServerError"),
    ],
)
async def test_the_policy_says_what_is_retried(
    stage: Stage, provider: Provider, client: str, failures: list[int], statuses: list[int], outcome: str
) -> None:
    """Errors of the client are named by their class. A client that was given retries of its own again makes none."""
    provider.failures = list(failures)
    await stage.worker(APP)
    await stage.submit("asks", client=client, question="why")
    assert await stage.completed() == outcome
    assert provider.statuses == statuses


async def test_an_attempt_that_takes_too_long_has_failed(stage: Stage, provider: Provider) -> None:
    provider.hangs = 1
    await stage.worker(APP)
    await stage.submit("asks", "one", client="timed", question="why")
    assert await stage.completed("one") == "answer to why"
    (retried,) = await retries(stage, "one")
    assert retried.body["error"] == {"type": "ReadTimeout", "message": "no answer within 3 s"}
    provider.hangs = 2
    await stage.submit("asks", "two", client="timed", question="why")
    assert await stage.completed("two") == "APITimeoutError"
    assert provider.statuses == [0, 200, 0, 0]


async def test_a_provider_that_is_down_is_not_asked_by_the_clients_own_retries(
    stage: Stage, provider: Provider
) -> None:
    stage.environment["PROVIDER"] = "http://127.0.0.1:1/v1"
    await stage.worker(APP)
    await stage.submit("asks", client="own", question="why")
    assert await stage.completed() == "APIConnectionError"
    assert (await stage.types()).count("llm_requested") == 2, "as often as the policy says"


POLICY = """
[tools."po*"]
retry = { attempts = 2, initial = "10ms", maximum = "10ms" }

[tools."slow"]
timeout = "100ms"
retry = { attempts = 1 }

[agents."p*"]
retry = { attempts = 2, initial = "10ms", maximum = "10ms" }
"""


async def test_a_policy_file_sets_retries_and_timeouts_by_name(stage: Stage) -> None:
    path = stage.folder / "policy.toml"
    path.write_text(POLICY, encoding="utf-8")
    stage.environment["HOLDFAST_POLICY"] = str(path)
    await stage.worker(APP)
    await stage.submit("posts", item="x")
    await stage.submit("reads", "read", item="x")
    assert await stage.completed("read") == "too slow"
    await until_dead_letter(stage)
    assert len((await stage.job()).error) == 2, "attempts of the job"
    found = await retries(stage)
    assert [(one.body["attempt"], one.body["attempts"]) for one in found] == [(1, 2)], "of the call, once"


@pytest.mark.parametrize(
    "text, said",
    [
        ('[agents."p*"]\nretry = 5', "agents.'p*': retry = 5 is of the wrong type"),
        ('[agents."p*"]\nclass = "unsafe"', "agents.'p*' has no setting 'class'"),
        ('[agents."p*"]\ntimeout = "0s"', "agents.'p*': timeout: the timeout of a job is 0"),
        ('[agents."p*"]\ntimeout = "soon"', "agents.'p*': timeout: 'soon' is not a duration"),
        ('[tools."p*"]\nretry = { attempts = 0 }', "tools.'p*': retry: attempts is 0, not 1 to"),
        ('[tools."p*"]\nretry = { tries = 3 }', "tools.'p*': retry: there is no 'tries'"),
        ('[tools."p*"]\nretry = { initial = "soon" }', "tools.'p*': retry: "),
        ('[tools."p*"]\ntimeout = true', "tools.'p*': timeout = True is of the wrong type"),
    ],
)
@pytest.mark.parametrize("store", ["sqlite"])
async def test_a_policy_that_makes_no_sense_is_refused(stage: Stage, text: str, said: str) -> None:
    path = stage.folder / "policy.toml"
    path.write_text(text, encoding="utf-8")
    stage.environment["HOLDFAST_POLICY"] = str(path)
    refused = re.sub(r"\s+", " ", await stage.refused("worker", str(APP)))
    assert f"{path}: {said}" in refused
