"""S22: whatever a model, a tool or a caller wrote, no command lets it drive the terminal."""

from __future__ import annotations

import re

import pytest

from holdfast.model.configured_agents import Configuration, HostedAgent
from holdfast.model.jobs import JobDraft
from holdfast.model.schedule import Schedule
from tests.api.client.job_states import Lives
from tests.cli.conftest import CommandDesk, desk

__all__ = ["desk"]
pytestmark = pytest.mark.store("sqlite")

HOSTILE = "\x1b]0;owned\x07\x1b[31mred\x1b[2J\x9b31m\u202egnp.exe\u2066\r overwritten \x08\x08 \x1b]8;;http://x\x1b\\link\ud800"
NAME = "job\u202egnp\u2066"
DRIVES = re.compile("[\x00-\x09\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")


async def hostile(one: Lives) -> str:
    """A job whose every text is hostile, held for a person after three failures; an agent and a schedule as well."""

    async def hopeless(*_given: object) -> None:
        raise RuntimeError(HOSTILE)

    one.programs["hopeless"] = hopeless
    await one.store.jobs.submit(JobDraft(kind="hopeless", job_id=NAME, input=HOSTILE))
    await one.store.agents.create(
        HostedAgent(agent_id="a", name=NAME, configuration=Configuration(instructions=HOSTILE))
    )
    await one.store.schedules.put(
        Schedule(schedule_id=NAME, kind=NAME, cron="0 0 1 1 *", next_at=2**50, input=HOSTILE)
    )
    for _ in range(3):
        await one.go_on()
        one.clock.advance(3_600_000_000)
    return (await one.store.jobs.head(NAME)).status


def test_no_command_prints_what_drives_a_terminal(desk: CommandDesk) -> None:
    desk.live(hostile, ago_us=20 * 3_600_000_000)
    commands = [
        ["jobs"],
        ["jobs", "--person"],
        ["job", NAME],
        ["trace", NAME],
        ["verify", NAME],
        ["dead", "list"],
        ["agent", "list"],
        ["agent", "show", NAME],
        ["schedule", "list"],
        ["queue", "list"],
        ["signal", NAME + "x", "word"],
        ["cancel", NAME, "--why", "\u202ex"],
        ["job", NAME + "\x1b[31m"],
        ["agent", "show", "nobody\u202e\x1b[31m"],
    ]
    seen = ""
    for command in commands:
        for form in (
            ([], ["--json"]) if command[0] in {"jobs", "job", "trace", "dead", "agent", "schedule"} else ([],)
        ):
            done = desk.type(*command, *form)
            assert not (found := DRIVES.search(done.out + done.err)), (command, found)
            seen += done.out
    assert "red" in seen, "the text itself is shown"
    assert "RuntimeError" in seen
