"""Write `docs/reference/errors.md` from `holdfast.errors`, so that page and code cannot disagree.

python -m tools.make_errors_reference
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from holdfast import errors

TARGET = Path(__file__).resolve().parent.parent / "docs" / "reference" / "errors.md"

HEAD = """\
<!-- Made by `make docs` from src/holdfast/errors.py. Do not edit. -->

# Errors

Every error that Holdfast raises has a `code`, which is the same in Python, HTTP responses, the command line and logs; a
`retry`, which says whether the same call may succeed later; and a `hint`, which says what to do. To catch a family of
errors, catch its parent: the first row of each table.
"""

_BRANCH = re.compile(r"^    (?P<trunk>[│├└─ ]*)(?P<name>[A-Z]\w+) {2,}(?P<meaning>\S.*)$")


def parse_tree(docstring: str) -> Iterator[tuple[str, str, str]]:
    """The tree in the module's docstring as (name, name of its parent, what it means), top down."""
    path: list[str] = []
    for line in docstring.splitlines():
        if branch := _BRANCH.match(line):
            depth = len(branch["trunk"]) // 4
            path[depth:] = [branch["name"]]
            yield branch["name"], path[depth - 1] if depth else "Exception", branch["meaning"].strip()


def format_page() -> str:
    """The whole page: a section for each family, a row for each error in it."""
    lines = [HEAD]
    for name, parent, meaning in parse_tree(errors.__doc__ or ""):
        error: type[errors.HoldfastError] = getattr(errors, name)
        if parent == "Exception":
            continue
        if parent == "HoldfastError":
            lines += [f"\n## {name}: {meaning}\n", "| error | code | retry | what it means | what to do |"]
            lines += ["|---|---|---|---|---|"]
        retry = "yes" if error.retry else "no"
        lines.append(f"| `{name}` | `{error.code}` | {retry} | {meaning} | {error.default_hint} |")
    return "\n".join(lines) + "\n"


def main() -> None:
    TARGET.parent.mkdir(parents=True, exist_ok=True)
    TARGET.write_text(format_page(), encoding="utf-8")


if __name__ == "__main__":
    main()
