"""docs/operating/metrics.md: the tables of it, from the code. `make docs` runs it."""

from __future__ import annotations

import sys
from pathlib import Path

from holdfast.server.metrics.table import METRICS, Metric

PAGE = Path(__file__).parent.parent / "docs" / "operating" / "metrics.md"
BEGIN, END = "<!-- the list -->", "<!-- its end -->"


def format_row(one: Metric) -> str:
    labels = " ".join(f"`{label}`" for label in one.labels)
    return f"| `{one.name}` | {one.kind} | {labels} | {one.meaning} |"


def main() -> int:
    before, _, rest = PAGE.read_text(encoding="utf-8").partition(BEGIN)
    _, _, after = rest.partition(END)
    lines = ["| metric | kind | labels | meaning |", "|---|---|---|---|", *map(format_row, METRICS)]
    PAGE.write_text(f"{before}{BEGIN}\n\n" + "\n".join(lines) + f"\n\n{END}{after}", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
