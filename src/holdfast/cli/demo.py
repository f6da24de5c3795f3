"""`holdfast demo`: three kills, and the verdict of the receivers."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import click

from holdfast.cli import render
from holdfast.cli.output import wait_for

if TYPE_CHECKING:
    from holdfast.demo.story import Verdict


@click.command()
@click.option(
    "--store",
    "where",
    metavar="ADDRESS",
    help="Where its job is kept, e.g. postgresql://user@host/database; without it in a file that is removed after.",
)
def demo(where: str | None) -> None:
    """Give an agent a job, kill its worker three times with -9, and count what arrived.

    API, worker, store, receivers and kills are real; the model is a script. Exit status 0: the verdict is true.

    Example: holdfast demo
    """
    from rich.text import Text

    from holdfast.demo.story import play

    console = render.console()

    def say(at: str, line: str, style: str) -> None:
        shown = Text.assemble((f"{at:>8}  ", "dim"), render.text(line, style))
        console.print(shown, no_wrap=True, overflow="ellipsis")

    console.print(
        "An agent reads sources, writes a PDF, uploads and mails it. We kill its worker three times.\n"
    )
    with tempfile.TemporaryDirectory(prefix="holdfast-demo-") as folder:
        there = where or f"sqlite:///{Path(folder) / 'demo.db'}"
        verdict = wait_for(play(there, Path(folder), say))
    _show(verdict)
    sys.exit(0 if verdict.true else 1)


def _show(verdict: Verdict) -> None:
    from rich.text import Text

    console = render.console()
    console.print()
    console.print(render.text("The verdict, from the receivers' own logs", "bold"))
    for count, what, wanted in (
        (verdict.pdfs, "PDF", 1),
        (verdict.uploads, "upload", 1),
        (verdict.mails, "e-mail", 1),
        (verdict.repeated, "repeated steps", 0),
    ):
        console.print(Text.assemble(f"{count:>8}  ", (what, "green" if count == wanted else "bold red")))
    whole = "the journal verifies" if verdict.whole else "the journal does not verify"
    console.print(Text.assemble(f"{verdict.kills:>8}  ", (f"kills; {whole}", "dim")))
    if verdict.true:
        console.print(render.text("Nothing lost, nothing twice.", "bold green"))
    else:
        console.print(render.text("This is not what we promise.", "bold red"))
