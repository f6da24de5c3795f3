"""Command lines in files that people copy, held against the real command line: every option and argument is parsed."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Sequence

import click

from holdfast.cli.root import holdfast

_FENCED = re.compile(r"^```(?:bash|sh|console)\n(.*?)^```", re.MULTILINE | re.DOTALL)
_INLINE = re.compile(r"`(holdfast [^`]+)`")


def refusal(arguments: Sequence[str]) -> str | None:
    """What the command line has against these arguments; None if it takes them."""
    command: click.Command = holdfast
    context: click.Context | None = None
    name, rest = "holdfast", list(arguments)
    try:
        while True:
            context = command.make_context(name, rest, parent=context)
            if not isinstance(command, click.Group):
                return None
            word, found, rest = command.resolve_command(context, [*context._protected_args, *context.args])
            assert found is not None
            name, command = word or "", found
    except click.exceptions.Exit:
        return None  # --help, --version
    except click.ClickException as error:
        return error.format_message()


def lines_of(page: str) -> Iterator[list[str]]:
    """The `holdfast …` command lines of a page: in its snippets, and whole ones in its text."""
    for body in _FENCED.findall(page):
        for line in body.replace("\\\n", " ").splitlines():
            words = shlex.split(line, comments=True)
            while words and re.fullmatch(r"[A-Z_]+=\S*", words[0]):
                words = words[1:]
            if words[:1] == ["holdfast"]:
                yield words[1:]
    text = "\n".join(line for line in _FENCED.sub("", page).splitlines() if not line.startswith("#"))
    for line in _INLINE.findall(text):
        if "…" not in line:
            yield shlex.split(line)[1:]
