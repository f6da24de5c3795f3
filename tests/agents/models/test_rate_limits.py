"""The gate before a model: by the clock that it is told, and by nothing else."""

from __future__ import annotations

import asyncio

import pytest

import holdfast as hf
from holdfast.agents.models.provider_limits import SHUT_AFTER, SHUT_US, ProviderLimiter, RequestPolicy
from holdfast.errors import InvalidSetting
from holdfast.model.time import MINUTE, SECOND

NOW = 1_000 * MINUTE


def test_so_many_requests_a_minute() -> None:
    gate = ProviderLimiter(hf.Limits(requests_per_minute=2))
    for at in (NOW, NOW + 10 * SECOND):
        assert gate.opens_at(at) == at
        gate.record_request(at)
    assert gate.opens_at(NOW + 20 * SECOND) == NOW + MINUTE, "when the first of the two is a minute old"
    assert gate.opens_at(NOW + MINUTE) == NOW + MINUTE


def test_so_many_tokens_a_minute() -> None:
    gate = ProviderLimiter(hf.Limits(tokens_per_minute=100))
    gate.record_answer(NOW, 60)
    assert gate.opens_at(NOW + SECOND) == NOW + SECOND, "there is room yet"
    gate.record_answer(NOW + SECOND, 60)
    assert gate.opens_at(NOW + 2 * SECOND) == NOW + MINUTE, "when the first sixty no longer count"
    gate.record_answer(NOW + 2 * SECOND, 500)
    assert gate.opens_at(NOW + 3 * SECOND) == NOW + 2 * SECOND + MINUTE


def test_a_model_that_fails_again_and_again_is_left_alone_for_a_while() -> None:
    gate = ProviderLimiter(hf.Limits())
    for _ in range(SHUT_AFTER - 1):
        gate.record_failure(NOW, None)
    assert gate.opens_at(NOW) == NOW
    gate.record_failure(NOW, None)
    assert gate.opens_at(NOW) == NOW + SHUT_US
    gate.record_failure(NOW, 5 * MINUTE)
    assert gate.opens_at(NOW) == NOW + 5 * MINUTE, "as long as it asks for"
    gate.record_answer(NOW, 1)
    assert gate.opens_at(NOW) == NOW, "one answer, and it is open"


async def test_places_are_given_out_in_turn_and_none_is_lost() -> None:
    """A waiter that gives up, before or at the very moment of its turn, leaves its place to the next."""
    gate = ProviderLimiter(hf.Limits(concurrency=1))
    order: list[str] = []
    leave = asyncio.Event()
    others: list[asyncio.Task[None]] = []

    async def through(name: str) -> None:
        async with gate.slot():
            order.append(name)
            await leave.wait()
        if name == "first":
            others[1].cancel()  # its turn has come, and it does not know yet

    first = asyncio.create_task(through("first"))
    await asyncio.sleep(0)
    others += [asyncio.create_task(through(name)) for name in ("impatient", "late", "last")]
    await asyncio.sleep(0)
    others[0].cancel()
    await asyncio.sleep(0)
    assert order == ["first"]
    leave.set()
    await asyncio.wait([first, *others])
    assert order == ["first", "last"]
    async with gate.slot():
        order.append("free again")


def test_patience_ends() -> None:
    patience = RequestPolicy(retry=hf.Retry(attempts=3, initial=0.001, maximum=0.001, jitter=1))
    assert patience.wait_us(1, [OSError()], 0.5, None) == 500
    assert patience.wait_us(2, [OSError()], 0.0, 7 * SECOND) == 7 * SECOND
    assert patience.wait_us(3, [OSError()], 0.5, None) is None


@pytest.mark.parametrize("wrong", [0, -1, 1.5, "8"])
def test_a_limit_is_a_whole_number(wrong: object) -> None:
    with pytest.raises(InvalidSetting):
        hf.Limits(concurrency=wrong)  # type: ignore[arg-type]
