"""Write the journals of the replay corpus that are not written yet: `python -m tools.record_journals`.

A journal that is there stays as it is: it stands for jobs that were started with the version that wrote it. To add one,
add a program to tests/engine/replay/corpus.py and run this.
"""

from __future__ import annotations

import json
import sys

import msgspec

from tests.engine.replay.corpus import FOLDER, PROGRAMS, record


def main() -> int:
    FOLDER.mkdir(parents=True, exist_ok=True)
    for name in PROGRAMS:
        path = FOLDER / f"{name}.json"
        if path.exists():
            print(f"{path.name} is there and stays")
            continue
        written = record(name)
        path.write_text(
            json.dumps(msgspec.to_builtins(written), ensure_ascii=False, indent=1) + "\n", "utf-8"
        )
        print(f"{path.name}: {len(written.events)} events")
    return 0


if __name__ == "__main__":
    sys.exit(main())
