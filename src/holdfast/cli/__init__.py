"""The command line: thin commands over the client and the runtime.

Data goes to stdout, messages to stderr; a table on a terminal, JSON with `--json`. Exit status: see `cli.exit_codes`.
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
    """Runs `holdfast`. A user's mistake ends in a message with a remedy, never in a traceback."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(
            stream, io.TextIOWrapper
        ):  # a character that the terminal lacks is replaced, without a traceback
            stream.reconfigure(errors="replace")
    if _SUPERVISED in os.environ:
        from holdfast.runtime.supervisor_link import follow_parent

        # A process that executes one job alone ends with its parent. A stopped worker is continued, and drains.
        follow_parent(signal.SIGKILL if _HANDED in os.environ else signal.SIGCONT)
    from holdfast.cli.entry_point import run
    from holdfast.cli.root import holdfast
    from holdfast.runtime.log_redaction import write_traceback

    sys.excepthook = write_traceback
    sys.exit(run(holdfast))
