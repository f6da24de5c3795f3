"""python -m tests.simulation.world --seed 4711 | --seeds 1000 [--from N]"""

from __future__ import annotations

import argparse
import sys

from tests.simulation.world.batch import run_many
from tests.simulation.world.run import run


def main() -> int:
    """0: every world was well."""
    parser = argparse.ArgumentParser(prog="python -m tests.simulation.world", description=__doc__)
    parser.add_argument("--seed", type=int, help="one world, with everything that happened in it")
    parser.add_argument("--seeds", type=int, default=100, help="so many worlds (default 100)")
    parser.add_argument("--from", type=int, default=0, dest="first", help="the first seed (default 0)")
    asked = parser.parse_args()
    if asked.seed is not None:
        verdict = run(asked.seed)
        print(verdict)
        print(f"digest {verdict.digest}, {verdict.seconds:.0f} s of virtual time")
        for what, times in sorted(verdict.counts.items()):
            print(f"{times:7}  {what}")
        return 1 if verdict.findings else 0
    batch = run_many(range(asked.first, asked.first + asked.seeds))
    print(batch)
    return 1 if batch.failed else 0


if __name__ == "__main__":
    sys.exit(main())
