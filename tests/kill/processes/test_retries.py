"""Goal: failures are retried as declared, counted in the journal, and have an end. Method: an application with the
public API, `holdfast worker`, kill -9, and the receiver's own log of what arrived."""

from __future__ import annotations

import pytest

from holdfast.model.states import Status, WaitReason
from tests.kill.processes.receiver import Receiver
from tests.kill.processes.stage import KILL, Stage
from tests.support.project import ROOT

pytestmark = pytest.mark.timeout(180)

APP = ROOT / "tests/kill/processes/retry_app.py"
UP = "receiver-is-up"
"""The outage is over when the application finds this file."""


async def test_an_outage_is_ridden_out(stage: Stage, receiver: Receiver) -> None:
    """A lookup, a payment and an unsafe fax whose receiver is down for some attempts: nothing is declared for the first
    two. The job waits and completes; no attempt of the job is used up, and the fax is sent once."""
    await stage.worker(APP)
    await stage.submit("outage")
    await receiver.until_arrived("register", times=3)
    (stage.folder / UP).touch()
    assert await stage.completed() == ["look_up register", "pay invoice", "fax receipt"]
    assert receiver.counts("fax") == {"receipt": 1}
    assert receiver.keys("pay") == {"invoice": 1}
    types = await stage.types()
    assert types.count("call_retried") == receiver.count("register") - 1
    assert "job_requeued" not in types


async def test_an_unsafe_call_that_sent_nothing_is_made_again(stage: Stage, receiver: Receiver) -> None:
    """`sent_nothing=(ConnectionRefusedError,)`: nobody is asked, and killed while it waits it goes on by itself."""
    first = await stage.worker(APP)
    await stage.submit("faxes")
    await stage.until_recorded("call_retried", 1)
    await first.end(KILL)
    (stage.folder / UP).touch()
    await stage.worker(APP)
    assert await stage.completed() == "fax receipt"
    assert receiver.counts("fax") == {"receipt": 1}


async def test_an_unsafe_call_is_not_made_again_because_an_earlier_attempt_sent_nothing(
    stage: Stage, receiver: Receiver
) -> None:
    """The first attempt was refused; of the second nobody knows: a person is asked, and nothing is sent again."""
    await stage.worker(APP)
    await stage.submit("telexes")
    await stage.until_uncertain("job")
    assert receiver.counts("telex") == {"offer": 2}
    assert (await stage.types()).count("tool_called") == 2


async def test_attempts_are_counted_across_deaths(stage: Stage, receiver: Receiver) -> None:
    """Four attempts are declared. Its worker is killed after the second; the next one makes two more, or three if the
    second was not recorded yet; then the code gets the error and catches it."""
    first = await stage.worker(APP)
    await stage.submit("gives_up")
    await receiver.until_arrived("shop", times=2)
    await stage.until_recorded("call_retried", 2)
    await first.end(KILL)
    await stage.worker(APP)
    assert await stage.completed() == "gave up: shop is away"
    assert receiver.count("shop") == 4


async def test_a_verifiable_call_that_never_ends_goes_to_a_person(stage: Stage, receiver: Receiver) -> None:
    """It takes longer than its timeout, and the probe says that it did not happen: after the declared two attempts a
    person is asked, with the error."""
    await stage.worker(APP)
    await stage.submit("too_slow")
    await stage.until_uncertain("job")
    assert receiver.counts("book") == {"table": 2}
    (need,) = (await stage.job()).needs
    assert need.step_key is not None


async def test_wrong_code_is_not_run_three_times(stage: Stage, receiver: Receiver) -> None:
    """A TypeError of the agent's own code: held at once, and what it did before is not repeated."""
    (stage.folder / UP).touch()
    await stage.worker(APP)
    await stage.submit("wrong_code")
    await stage.until_recorded("job_dead_lettered", 1)
    job = await stage.job()
    assert (job.status, job.wait_reason) == (Status.WAITING, WaitReason.DEAD_LETTER)
    assert (await stage.types()).count("job_claimed") == 1
    assert receiver.counts("look_up") == {"first": 1}
