"""Check the documentation: links lead somewhere, snippets parse, and commands exist.

python -m tools.check_docs
"""

from __future__ import annotations

import ast
import re
import textwrap
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent

_LINK = re.compile(r"!?\[[^\]]*\]\(([^)\s]+)(?:\s+\"[^\"]*\")?\)")
_FENCE = re.compile(r"^([ ]*)```(\w*)[^\n]*\n(.*?)^\1```", re.MULTILINE | re.DOTALL)
_TARGET = re.compile(r"^([a-z]+):.*##", re.MULTILINE)
_MAKE = re.compile(r"\bmake ([a-z]+)\b")


def list_pages() -> list[Path]:
    """Every page a reader can open: those at the root and all of docs."""
    return sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])


def find_broken_links(page: Path) -> Iterator[str]:
    """Relative links to files that are not there, and to headings that no page has."""
    text = _remove_code(page.read_text(encoding="utf-8"))
    for link in _LINK.findall(text):
        if re.match(r"[a-z]+:", link):
            continue
        name, _, heading = link.partition("#")
        target = (page.parent / name).resolve() if name else page
        if not target.is_relative_to(ROOT) or not target.exists():
            yield f"{link} leads nowhere"
        elif heading and target.suffix == ".md" and heading not in list_headings(target):
            yield f"{link}: {target.name} has no such heading"


def list_headings(page: Path) -> set[str]:
    """The anchors of a page's headings, spelled as code hosts spell them."""
    text = _FENCE.sub("", page.read_text(encoding="utf-8"))
    titles = re.findall(r"^#+ (.+)$", text, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


def find_broken_snippets(page: Path, targets: set[str]) -> Iterator[str]:
    """Python that does not parse, and `make` targets that do not exist."""
    text = page.read_text(encoding="utf-8")
    for indent, language, body in _FENCE.findall(text):
        if language in {"python", "py"}:
            try:
                ast.parse(textwrap.dedent(body) if indent else body)
            except SyntaxError as error:
                yield f"a Python snippet does not parse: {error}"
    commands = [
        body for _, language, body in _FENCE.findall(text) if language in {"", "sh", "bash", "console"}
    ]
    commands += re.findall(r"`(make [^`]+)`", text)
    for name in {name for command in commands for name in _MAKE.findall(command)} - targets:
        yield f"the Makefile has no target {name}"


def find_problems() -> list[str]:
    targets = set(_TARGET.findall((ROOT / "Makefile").read_text(encoding="utf-8")))
    return [
        f"{page.relative_to(ROOT).as_posix()}: {problem}"
        for page in list_pages()
        for problem in [*find_broken_links(page), *find_broken_snippets(page, targets)]
    ]


def _remove_code(text: str) -> str:
    return re.sub(r"`[^`\n]*`", "", _FENCE.sub("", text))


def main() -> None:
    if found := find_problems():
        raise SystemExit("\n".join(found))
    print(f"docs: {len(list_pages())} pages, every link leads somewhere, every snippet parses")


if __name__ == "__main__":
    main()
