"""A migration that does not come to its end has not begun."""

from __future__ import annotations

import json
import random
from typing import Any

import msgspec
import pytest

from holdfast.store.clock import SystemClock
from holdfast.store.sql.migrate import Migration, migrations
from tests.operations.migration.grounds import BOTH, Ground, Seen, SqliteGround, advance, fill, held, told
from tests.store.concurrency.processes import Child

KILLED = -9


class BrokenClock(SystemClock):
    """Both databases ask for the time between the script and the record of it. This is the moment."""

    def wall_us(self) -> int:
        raise InterruptedError


@pytest.mark.parametrize("ground", BOTH, indirect=True)
@pytest.mark.parametrize("where", ["in_the_script", "before_the_record"])
async def test_a_failed_migration_leaves_the_one_before(
    ground: Ground, stages: list[Seen], where: str
) -> None:
    """Goal: no half schema. Method: let every migration fail, by an error at the end of its script or right after it;
    compare with the stage before; do it again, unharmed, and go on to the next."""
    for number, migration in enumerate(migrations(ground.dialect), 1):
        await _fails(ground, migration, where)
        assert await ground.seen() == stages[number - 1], f"what migration {number} had done is undone"
        async with ground.schema() as schema:
            assert await schema.apply(migration)
    assert await ground.seen() == stages[-1]


async def _fails(place: Ground, migration: Migration, where: str) -> None:
    if where == "in_the_script":
        broken = msgspec.structs.replace(migration, script=migration.script + "\nSELECT 1 FROM nowhere;")
        async with place.schema() as schema:
            with pytest.raises(Exception, match="nowhere"):
                await schema.apply(broken)
    else:
        async with place.schema(clock=BrokenClock()) as schema:
            with pytest.raises(InterruptedError):
                await schema.apply(migration)


@pytest.mark.parametrize("ground", BOTH, indirect=True)
@pytest.mark.parametrize("begun", [0, 3], ids=["new", "old"])
@pytest.mark.parametrize("kills", [6, pytest.param(60, marks=pytest.mark.chaos)])
async def test_a_killed_migration_is_before_or_after(
    ground: Ground, stages: list[Seen], kennel: Child, begun: int, kills: int
) -> None:
    """Goal: kill -9 at any moment leaves a schema between two migrations, and a new store whole or empty. Method: count
    the moments of a migration, of a new store and of an old one with a job in it; kill one process in each part of that
    range; look; go on."""
    moments = _order(kennel, await _prepared(ground, begun), moment=0)["said"]
    left, died = set(), 0
    for part in range(kills):
        chance = random.Random(f"{ground.store} {begun} {part}")
        moment = chance.randrange(moments * part // kills, moments * (part + 1) // kills) + 1
        place = await _prepared(ground, begun)
        ending = _order(kennel, place, moment=moment)
        assert ending["code"] in {KILLED, 0}, ending["said"]
        died += ending["code"] == KILLED
        seen = await place.seen()
        assert seen in stages[begun:], f"killed at moment {moment} of {moments}: the schema is none of ours"
        if len(seen.applied) > begun:
            await _check_copy(place, stages, begun)
        left.add(len(seen.applied))
        await _goes_on(place, stages, begun)
    # How many moments there are varies a little from run to run, so the last victims may get away.
    assert died >= kills * 3 // 4
    if begun:
        assert len(left) >= 2, f"the kills left {sorted(left)} migrations: they all hit the same spot"
    else:
        assert 0 in left
        assert left <= {0, len(stages) - 1}, "a new store has all migrations or none"


async def _prepared(ground: Ground, begun: int) -> Ground:
    place = ground.fresh()
    await advance(place, begun)
    if begun:
        await fill(place, begun)
    return place


def _order(kennel: Child, place: Ground, moment: int) -> Any:
    kennel.tell(json.dumps({"do": "die", "moment": moment, **told(place)}))
    return kennel.hear()


async def _check_copy(place: Ground, stages: list[Seen], begun: int) -> None:
    """What an old file was lies beside it, whole."""
    if isinstance(place, SqliteGround) and begun:
        assert await SqliteGround(str(place.backup(begun + 1))).seen() == stages[begun]


async def _goes_on(place: Ground, stages: list[Seen], begun: int) -> None:
    store = await place.open()
    await store.close()
    assert await place.seen() == stages[-1]
    if begun:
        assert await held(place) == [("store-of-old", 3), ("job-of-old", "pending")]
    await _check_copy(place, stages, begun)
