"""Play one storm.

python -m tests.kill.storm --kills 500 --store sqlite --seed 1
python -m tests.kill.storm --kills 50 --store postgres --without poison,blocking,stop
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import tempfile
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

from tests.kill.storm.report import FILE, save
from tests.kill.storm.storm import TROUBLES, Plan, run_storm
from tests.support.servers import PostgresServer


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.kill.storm", description="Play one storm.")
    parser.add_argument("--kills", type=int, default=50)
    parser.add_argument("--store", choices=("sqlite", "postgres"), default="sqlite")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--without", default="", help=f"some of {', '.join(sorted(TROUBLES))}")
    parser.add_argument("--kills-per-second", type=float, default=3.0)
    parser.add_argument("--keep", type=Path, help="a folder for the store and the receiver's log")
    options = parser.parse_args(arguments)
    without = frozenset(filter(None, options.without.split(",")))
    if unknown := without - TROUBLES:
        parser.error(f"no trouble is called {', '.join(sorted(unknown))}")
    plan = Plan(
        kills=options.kills,
        store=options.store,
        seed=options.seed,
        without=without,
        kills_per_s=options.kills_per_second,
    )
    return asyncio.run(_play(plan, options.keep))


async def _play(plan: Plan, keep: Path | None) -> int:
    with tempfile.TemporaryDirectory(prefix="holdfast-storm-") as temporary:
        folder = Path(temporary) if keep is None else keep
        folder.mkdir(parents=True, exist_ok=True)
        async with _database(plan.store, folder) as address:
            report = await run_storm(plan, folder, address)
    print(report)
    save(report)
    print(f"  written to {FILE}")
    return 0 if report.verdict.is_clean else 1


@asynccontextmanager
async def _database(store: str, folder: Path) -> AsyncIterator[str]:
    if store == "sqlite":
        yield f"sqlite:///{folder / 'store.db'}"
        return
    with PostgresServer() as server:
        await server.until_answers()
        async with server.fresh_database() as address:
            yield address


if __name__ == "__main__":
    sys.exit(main())
