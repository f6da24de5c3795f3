"""A connection that dies at any message changes nothing about the answer.

Between us and Postgres sits a proxy that loses one message: a request, so that nothing was done; or a reply, so that it
was done and nobody knows. The executor asks again by itself. From outside, the call takes effect once and the answer
is the one a quiet wire would have given (I40).
"""

from __future__ import annotations

import asyncio
import functools
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from typing import Any

import asyncpg
import pytest

from holdfast.errors import OutcomeUnknown, StoreUnavailable, Unavailable
from holdfast.model.session import TurnCommit
from holdfast.store.contract import Store
from holdfast.store.postgres.wakeups import PostgresWakeups
from holdfast.testing.conformance.drafts import node
from tests.store.concurrency.operations import COMMIT, OPERATIONS, Operation, submit
from tests.store.concurrency.stores import PATIENCE_S, Place, fresh, opened, until
from tests.support.postgres_proxy import Cut, Proxy, Side
from tests.support.servers import PostgresServer

pytestmark = [pytest.mark.store("postgres"), pytest.mark.xdist_group("cut-postgres")]

SHORT_S = 0.5


@dataclass
class Wire:
    """A store behind a proxy, one beside it, and a pair of eyes."""

    proxy: Proxy
    store: Store
    direct: Store
    eyes: Any
    cuts: int = 0
    landed_unheard: int = 0

    async def settle(self) -> None:
        """Nothing is on its way: hints travel after the commit, on a connection of the same pool."""
        assert isinstance(self.store.wakeups, PostgresWakeups)
        if self.store.wakeups._sending is not None:
            await asyncio.wait([self.store.wakeups._sending])

    async def goes_away(self) -> None:
        self.proxy.refuse()

    def comes_back(self) -> None:
        self.proxy.refuse(False)

    async def attempt(self, operation: Operation, cut: Cut, *more: Cut, at_commit: bool = False) -> bool:
        """The operation survives these cuts; says whether the first was reached at all."""
        trial = await operation(self.direct)
        if at_commit:
            cut.since = trial.commits
        seen: list[int] = []

        async def look() -> None:
            seen.append(await self.eyes.fetchval(trial.landed, trial.key))

        cut.witness = look
        await self.settle()
        self.proxy.arm(cut, *more)
        answer = await asyncio.wait_for(trial.call(self.store), PATIENCE_S)
        self.proxy.disarm()
        await trial.check(answer)
        assert await self.eyes.fetchval(trial.landed, trial.key) == 1, "once, whatever happened on the way"
        if not cut.sprung:
            return False
        self.cuts += 1
        self.landed_unheard += sum(seen)
        return True


@pytest.fixture
async def wire(
    durable_postgres_server: PostgresServer, durable_postgres_database: str
) -> AsyncIterator[Wire]:
    """The database of this test behind a wire that can be cut."""
    async with behind_a_proxy(durable_postgres_server, durable_postgres_database) as wire:
        yield wire


@pytest.fixture
async def impatient(
    durable_postgres_server: PostgresServer, durable_postgres_database: str, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[Wire]:
    """The same with a store that soon gives up."""
    monkeypatch.setattr("holdfast.store.postgres.open.COMMAND_S", SHORT_S)
    async with behind_a_proxy(durable_postgres_server, durable_postgres_database, patience_s=SHORT_S) as wire:
        yield wire


@contextmanager
def named(operation: Operation) -> Iterator[None]:
    """Whatever goes wrong in the block says which operation it was."""
    try:
        yield
    except BaseException as error:
        error.add_note(f"operation: {operation.__name__}")
        raise


@asynccontextmanager
async def behind_a_proxy(
    server: PostgresServer, url: str, *, patience_s: float = PATIENCE_S
) -> AsyncIterator[Wire]:
    name = url.partition("?")[0].rpartition("/")[2]
    eyes = await asyncpg.connect(url)
    try:
        async with Proxy(server.port) as proxy, opened(Place("postgres", url)) as direct:
            address = Place("postgres", server.tcp_url(name, port=proxy.port))
            async with opened(address, patience_s=patience_s) as store:
                yield Wire(proxy, store, direct, eyes)
    finally:
        await eyes.close()


def places(messages: int, count: int) -> Iterator[int]:
    """So many places among the messages, from the first to the last."""
    return iter(sorted({round(n * (messages - 1) / max(1, count - 1)) for n in range(count)}))


async def messages_of(wire: Wire, operation: Operation, side: Side) -> int:
    """How many messages of one side the operation takes."""
    many = 1_000_000
    cut = Cut(side, many)
    assert not await wire.attempt(operation, cut)
    return many - cut.left


# ── every operation, every kind of cut ────────────────────────────────────────────────────────────


async def test_a_lost_commit_is_recognised(wire: Wire) -> None:
    """Goal: a write whose COMMIT was answered to nobody is not done again and is answered rightly. Method: lose each
    message of that answer, whole and torn, then the request itself; look from beside whether it was done before."""
    for operation in OPERATIONS:
        with named(operation):
            before = wire.landed_unheard
            for torn in (False, True):
                assert await wire.attempt(operation, Cut(Side.SERVER, int(torn), torn=torn), at_commit=True)
                assert await wire.attempt(operation, Cut(Side.CLIENT, torn=torn), at_commit=True)
            assert wire.landed_unheard - before == 2, (
                "the answer to a commit was lost twice, the request never"
            )
    print(f"{wire.cuts} cuts, {wire.landed_unheard} retries of a committed write")


@pytest.mark.parametrize("count", [3, pytest.param(80, marks=[pytest.mark.chaos, pytest.mark.timeout(1800)])])
async def test_a_cut_anywhere_is_survived(wire: Wire, count: int) -> None:
    """Goal: there is no bad moment to lose the connection. Method: cut at places all along the conversation, on both
    sides, whole and torn by turns."""
    for operation in OPERATIONS:
        with named(operation):
            for side in Side:
                for place in places(await messages_of(wire, operation, side), count):
                    await wire.attempt(operation, Cut(side, place, torn=place % 2 == 1))
    print(f"{wire.cuts} cuts, {wire.landed_unheard} retries of a committed write")
    assert wire.cuts >= count * len(OPERATIONS)
    assert wire.landed_unheard > 0


async def test_two_cuts_in_a_row_are_survived(wire: Wire) -> None:
    """Goal: a retry may be cut too. Method: lose the answer to a commit, then let the second try come to grief while it
    connects, or while it asks."""
    for operation in OPERATIONS:
        with named(operation):
            for second in (Cut(Side.SERVER, 3), Cut(Side.CLIENT, 20)):
                assert await wire.attempt(operation, Cut(Side.SERVER), second, at_commit=True)
    print(f"{wire.cuts} cuts, {wire.landed_unheard} retries of a committed write")


# ── a client that is quicker than the server ──────────────────────────────────────────────────────

SLOW_COMMIT = """
    CREATE FUNCTION holdfast.wait_to_commit() RETURNS trigger LANGUAGE plpgsql AS $$
    BEGIN PERFORM pg_advisory_xact_lock_shared(42); RETURN NULL; END $$;
    CREATE CONSTRAINT TRIGGER slow AFTER INSERT OR UPDATE ON holdfast.job_heads
        DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION holdfast.wait_to_commit();
    CREATE CONSTRAINT TRIGGER slow AFTER INSERT OR UPDATE ON holdfast.sessions
        DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION holdfast.wait_to_commit();
    CREATE CONSTRAINT TRIGGER slow AFTER INSERT OR UPDATE ON holdfast.inbox_batches
        DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION holdfast.wait_to_commit();
    CREATE CONSTRAINT TRIGGER slow AFTER INSERT OR UPDATE ON holdfast.namespaces
        DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION holdfast.wait_to_commit();
    CREATE CONSTRAINT TRIGGER slow AFTER UPDATE OR DELETE ON holdfast.schedules
        DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION holdfast.wait_to_commit();
    CREATE CONSTRAINT TRIGGER slow AFTER INSERT ON holdfast.audit_acts
        DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION holdfast.wait_to_commit();
"""
WAITING = """
    SELECT count(*) FROM pg_stat_activity
    WHERE datname = current_database() AND pid <> pg_backend_pid()
      AND (wait_event_type = 'Lock' OR query LIKE '%pg_stat_activity%')
"""


async def test_a_client_is_back_before_its_commit_is_through(wire: Wire) -> None:
    """Goal: a retry that meets its own first try, still committing, waits for it. Method: COMMIT waits for a lock that
    we hold; reset the client the moment the server has the request, and let go when the retry is there and waits."""
    await wire.eyes.execute(SLOW_COMMIT)
    for operation in OPERATIONS:
        with named(operation):
            trial = await operation(wire.direct)
            cut = Cut(Side.CLIENT, 0 if trial.commits == COMMIT else 2, since=trial.commits, passed=True)
            await wire.settle()
            await wire.eyes.execute("SELECT pg_advisory_lock(42)")
            wire.proxy.arm(cut)
            calling = asyncio.ensure_future(trial.call(wire.store))
            await until(functools.partial(_both_wait, wire, cut), "the retry to wait beside its first try")
            assert await wire.eyes.fetchval(trial.landed, trial.key) == 0
            await wire.eyes.execute("SELECT pg_advisory_unlock(42)")
            await trial.check(await asyncio.wait_for(calling, PATIENCE_S))
            assert await wire.eyes.fetchval(trial.landed, trial.key) == 1


async def _both_wait(wire: Wire, cut: Cut) -> bool:
    return cut.sprung and await wire.eyes.fetchval(WAITING) >= 2


# ── when patience ends ────────────────────────────────────────────────────────────────────────────


async def test_the_error_says_whether_it_may_be_written(impatient: Wire) -> None:
    """Goal: "nothing was written" is never said of what may be written. Method: the server stays away after a cut; lose
    the answer to a commit once, and once something earlier; then ask again."""
    wire = impatient
    trial = await submit(wire.direct)
    wire.proxy.arm(Cut(Side.SERVER, since=COMMIT, witness=wire.goes_away))
    with pytest.raises(OutcomeUnknown):
        await trial.call(wire.store)
    assert await wire.eyes.fetchval(trial.landed, trial.key) == 1
    wire.comes_back()
    await trial.check(await trial.call(wire.store))
    assert await wire.eyes.fetchval(trial.landed, trial.key) == 1, "asking again is safe"

    trial = await submit(wire.direct)
    await wire.settle()
    wire.proxy.arm(Cut(Side.SERVER, 12, witness=wire.goes_away))
    with pytest.raises(StoreUnavailable):
        await trial.call(wire.store)
    assert await wire.eyes.fetchval(trial.landed, trial.key) == 0
    wire.comes_back()
    await trial.check(await trial.call(wire.store))


async def test_a_turn_without_a_stamp_is_not_committed_twice(wire: Wire) -> None:
    """Goal: what cannot recognise itself is not done again. Method: lose the answer to an unstamped turn's commit; the
    caller is told that nobody knows, and finds one turn."""
    turn = TurnCommit(session_id=fresh("session"), nodes=(node("n1"),))
    for cut, revision in ((Cut(Side.CLIENT, 4), 1), (Cut(Side.SERVER, since=COMMIT), 2)):
        await wire.settle()
        wire.proxy.arm(cut)
        if cut.side is Side.CLIENT:
            assert (await wire.store.sessions.commit(turn)).revision == 1, (
                "before the commit it can be tried again"
            )
        else:
            with pytest.raises(OutcomeUnknown):
                await wire.store.sessions.commit(turn)
        assert cut.sprung
        view = await wire.direct.sessions.load(turn.session_id)
        assert view is not None
        assert view.revision == revision


async def test_a_wire_on_which_nothing_moves(impatient: Wire) -> None:
    """Goal: a server that neither answers nor hangs up does not hold a caller for ever. Method: stall the wire in the
    middle of a write; the caller is told, and when bytes flow again the store works."""
    wire = impatient
    trial = await submit(wire.direct)
    wire.proxy.stall()
    with pytest.raises(Unavailable):
        await asyncio.wait_for(trial.call(wire.store), PATIENCE_S)
    wire.proxy.resume()
    wire.proxy.reset()
    await trial.check(await trial.call(wire.store))
    assert await wire.eyes.fetchval(trial.landed, trial.key) == 1
