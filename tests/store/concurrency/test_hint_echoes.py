"""A hint that its own sender has acted upon does not come back to it."""

from __future__ import annotations

import pytest

from holdfast.runtime import open_store
from holdfast.store.contract import Store


async def _hears(one: Store, other: Store) -> None:
    """What the other says arrives."""
    while not await one.wakeups.wait(frozenset({"hello"}), 0.1):
        other.wakeups.hint("hello")


@pytest.mark.store("postgres")
async def test_what_was_hinted_here_is_heard_here_once(postgres_database: str) -> None:
    """Method: what we hint at is taken off the board at once. A hint of somebody else, sent later, travels behind our
    own on the same channel: when it is there, ours has come back, and must not stand on the board again."""
    ours, theirs = await open_store(postgres_database), await open_store(postgres_database)
    try:
        await _hears(ours, theirs)
        await _hears(theirs, ours)
        ours.wakeups.hint("ours")
        assert await ours.wakeups.wait(frozenset({"ours"}), 60) == {"ours"}
        assert await theirs.wakeups.wait(frozenset({"ours"}), 60) == {"ours"}, "others hear of it"
        theirs.wakeups.hint("theirs")
        assert await ours.wakeups.wait(frozenset({"theirs"}), 60) == {"theirs"}
        assert await ours.wakeups.wait(frozenset({"ours"}), 0) == frozenset()
        theirs.wakeups.hint("ours")
        assert await ours.wakeups.wait(frozenset({"ours"}), 60) == {"ours"}, "the same word of somebody else"
    finally:
        await ours.close()
        await theirs.close()
