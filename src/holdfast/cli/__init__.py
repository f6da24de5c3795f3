"""The command line: thin commands over the runtime.

Data goes to stdout, talk to stderr; a table on a terminal, JSON with `--json`. Exit status: see `cli.exits`.
"""

from __future__ import annotations

import io
import os
import signal
import sys
from typing import Final

_SUPERVISED: Final = "HOLDFAST_LIFELINE_PID"
_HANDED: Final = "HOLDFAST_HANDED_JOB"


def main() -> None:
    """Run `holdfast`. Whatever a person did wrong ends in a sentence and a remedy, never in a traceback."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(
            stream, io.TextIOWrapper
        ):  # a terminal that lacks a character gets another one, no traceback
            stream.reconfigure(errors="replace")
    if _SUPERVISED in os.environ:
        from holdfast.runtime.supervisor_link import follow_parent

        # What drives one job alone ends with its parent. A worker is woken, should it be stopped, and drains.
        follow_parent(signal.SIGKILL if _HANDED in os.environ else signal.SIGCONT)
    from holdfast.cli.entry_point import run
    from holdfast.cli.root import holdfast
    from holdfast.runtime.log_redaction import write_traceback

    sys.excepthook = write_traceback
    sys.exit(run(holdfast))
