"""`holdfast demo`: kills a worker three times and counts what the receivers got."""

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
    help="Store of the job, e.g. postgresql://user@host/database.  [default: a temporary file]",
)
def demo(where: str | None) -> None:
    """Run an agent, kill its worker three times with kill -9, and count what arrived.

    API, worker, store, receivers and kills are real; the model is scripted.
    Exit status 1: something was lost or repeated.

    Example: holdfast demo
    """
    from rich.text import Text

    from holdfast.demo.story import run_story

    console = render.console()

    def say(at: str, line: str, style: str) -> None:
        row = Text.assemble((f"{at:>8}  ", "dim"), render.text(line, style))
        console.print(row, no_wrap=True, overflow="ellipsis")

    console.print(
        "An agent reads sources, writes a PDF, uploads and mails it. We kill its worker three times.\n"
    )
    with tempfile.TemporaryDirectory(prefix="holdfast-demo-") as folder:
        address = where or f"sqlite:///{Path(folder) / 'demo.db'}"
        verdict = wait_for(run_story(address, Path(folder), say))
    _show(verdict)
    sys.exit(0 if verdict.true else 1)


def _show(verdict: Verdict) -> None:
    from rich.text import Text

    console = render.console()
    console.print()
    console.print(render.text("Result, from the receivers' own logs", "bold"))
    for count, label, expected in (
        (verdict.pdfs, "PDF", 1),
        (verdict.uploads, "upload", 1),
        (verdict.mails, "e-mail", 1),
        (verdict.repeated, "repeated steps", 0),
    ):
        console.print(Text.assemble(f"{count:>8}  ", (label, "green" if count == expected else "bold red")))
    whole = "the journal verifies" if verdict.whole else "the journal does not verify"
    console.print(Text.assemble(f"{verdict.kills:>8}  ", (f"kills; {whole}", "dim")))
    if verdict.true:
        console.print(render.text("Nothing lost, nothing repeated.", "bold green"))
    else:
        console.print(render.text("Something was lost or repeated: this breaks the guarantee.", "bold red"))
