"""The command line: thin commands over the runtime.

Data goes to stdout, talk to stderr; a table on a terminal, JSON with `--json`. Exit status: see `cli.exits`.
"""

from __future__ import annotations

import io
import sys


def main() -> None:
    """Run `holdfast`. Whatever a person did wrong ends in a sentence and a remedy, never in a traceback."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(
            stream, io.TextIOWrapper
        ):  # a terminal that lacks a character gets another one, no traceback
            stream.reconfigure(errors="replace")
    from holdfast.cli.root import holdfast
    from holdfast.cli.running import run
    from holdfast.runtime.guarding import last_words

    sys.excepthook = last_words
    sys.exit(run(holdfast))
