"""Goal: the three stores give the same answer to any sequence of questions. Method: Hypothesis invents sequences.

A difference is shrunk to the shortest sequence that still shows it. It belongs into test_regressions.py, under a name.
"""

from __future__ import annotations

from typing import Final, cast

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis.stateful import run_state_machine_as_test

from tests.store.property.jobs import JobRules
from tests.store.property.sessions import SessionRules
from tests.store.property.three_stores import Trio
from tests.store.property.world import World

EXAMPLES: Final = 200
STEPS: Final = 40

JOB_ANSWERS: Final = frozenset(
    {
        "jobs.submit",
        "jobs.submit KeyReused",
        "takeover",
        "leases.renew",
        "journal.append",
        "journal.append Broken",
        "journal.append Fenced",
        "journal.append InvalidMove",
        "journal.append MailWaiting",
        "append_many Head",
        "append_many Fenced",
        "journal.hold",
        "woken by mail",
    }
)
SESSION_ANSWERS: Final = frozenset(
    {
        "inbox.enqueue",
        "inbox.claim Claim",
        "inbox.claim None",
        "inbox.renew",
        "inbox.renew ClaimLost",
        "sessions.commit",
        "sessions.commit ClaimLost",
        "sessions.commit HeadMoved",
        "sessions.commit SessionBound",
        "sessions.commit TurnConflict",
        "sessions.commit replayed",
        "sessions.gc",
    }
)
"""What so many examples always come across; a machine that stopped doing so would prove nothing."""

pytestmark = [pytest.mark.store("memory", "sqlite", "postgres"), pytest.mark.timeout(3600)]


class MixedRules(JobRules, SessionRules):
    """Jobs in sessions that have inputs and turns of their own."""


def test_jobs(trio: Trio) -> None:
    play(JobRules, trio, JOB_ANSWERS, examples=EXAMPLES)


def test_sessions(trio: Trio) -> None:
    play(SessionRules, trio, SESSION_ANSWERS, examples=EXAMPLES)


def test_jobs_and_sessions(trio: Trio) -> None:
    play(MixedRules, trio, frozenset(), examples=EXAMPLES // 2)


@pytest.mark.chaos
@pytest.mark.parametrize("machine", [JobRules, SessionRules, MixedRules])
def test_for_long(trio: Trio, machine: type[World]) -> None:
    play(machine, trio, frozenset(), examples=settings().max_examples)  # as the profile says


def play(machine: type[World], trio: Trio, answers: frozenset[str], *, examples: int) -> None:
    """The stores agree over this many examples, which came across all these answers."""
    trio.seen.clear()
    run_state_machine_as_test(
        cast("type[World]", type(machine.__name__, (machine,), {"trio": trio})),
        settings=settings(
            max_examples=examples,
            stateful_step_count=STEPS,
            suppress_health_check=list(HealthCheck),
            report_multiple_bugs=False,
            phases=[Phase.reuse, Phase.generate, Phase.shrink],
        ),
    )
    never = sorted(answer for answer in answers if not trio.seen[answer])
    assert not never, f"{examples} examples never came across: {', '.join(never)}"
