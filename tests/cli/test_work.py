"""`holdfast work` and `holdfast agent external` as a person types them."""

from __future__ import annotations

import json

import pytest

from holdfast.client.in_process import EmbeddedClient
from holdfast.model.ids import RandomIds
from tests.api.client.job_states import Lives
from tests.cli.conftest import CommandDesk

pytestmark = pytest.mark.store("sqlite")

ASK = ("work", "submit", "Sum up page 3", "--capability", "summarize", "--json")


def test_work_is_submitted_listed_shown_and_cancelled(desk: CommandDesk) -> None:
    made = json.loads(desk.type(*ASK, "--data", '{"page": 3}', "--project", "hill").out)
    assert (made["status"], made["contextData"], made["projectId"]) == ("pending", {"page": 3}, "hill")
    listed = desk.type("work", "list")
    assert made["id"] in listed.out
    assert "Sum up" in listed.out
    assert desk.type("work", "list", "--status", "completed").out == ""
    shown = desk.type("work", "show", made["id"])
    assert "capability  summarize" in shown.out
    assert '{"page":3}' in shown.out
    again = json.loads(desk.type(*ASK, "--task-id", "t").out)
    assert json.loads(desk.type(*ASK, "--task-id", "t").out)["id"] == again["id"] != made["id"]
    cancelled = desk.type("work", "cancel", made["id"], "--why", "not needed")
    assert (cancelled.status, "cancelled" in cancelled.out) == (0, True)
    numbers = desk.type("stats").out
    assert "hill" in numbers
    assert json.loads(desk.type("stats", "--json").out)["byProject"]["hill"]["cancelledWork"] == 1


def test_agents_are_listed_as_they_are(desk: CommandDesk) -> None:
    desk.type("db", "migrate")
    assert "no external agents" in desk.type("agent", "external").err

    async def register(one: Lives) -> None:
        client = EmbeddedClient(one.store, one.clock, RandomIds())
        await client.register_agent("ant\x1b[2J", "claude", guid="a1", capabilities=["dig", "carry"])

    with pytest.raises(Exception, match="U\\+001B"):
        desk.live(register)

    async def properly(one: Lives) -> None:
        client = EmbeddedClient(one.store, one.clock, RandomIds())
        await client.register_agent("ant", "claude", guid="a1", capabilities=["dig", "carry"])

    desk.columns(120)
    desk.live(properly, ago_us=0)
    listed = desk.type("agent", "external").out
    assert "dig, carry" in listed
    assert "online" in listed
    assert desk.type("agent", "external", "--capability", "fly").out == ""
    (told,) = desk.type("agent", "external", "--json").out.splitlines()
    assert json.loads(told)["guid"] == "a1"


@pytest.mark.parametrize(
    "typed, status, said",
    [
        (("work", "show", "nobody"), 3, "there is no"),
        (("work", "submit", "x"), 2, "--capability"),
        (("work", "submit", "x", "--capability", "a@b"), 2, "@"),
        (("work", "submit", "x", "--capability", "a", "--data", "{"), 2, "not JSON"),
        (("work", "submit", "x", "--capability", "a", "--deadline", "soon"), 2, "instant"),
        (("work", "submit", "x", "--capability", "a", "--priority", "11"), 2, "11"),
        (("work", "list", "--status", "lost"), 2, "lost"),
    ],
)
def test_what_makes_no_sense_is_said(
    desk: CommandDesk, typed: tuple[str, ...], status: int, said: str
) -> None:
    desk.type("db", "migrate")
    done = desk.type(*typed)
    assert (done.status, said in done.err) == (status, True), done.err
    assert desk.type("work", "list").out == ""
