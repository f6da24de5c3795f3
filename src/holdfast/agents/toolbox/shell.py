"""Shell tool: one command at a time, in a folder, with limits on time, memory and output.

These limits are not a sandbox. A command may read and write whatever the worker's user may, and may use the network.
Run workers with a shell tool as a user, or in a container, with the permissions that the agent should have.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from os import PathLike
from pathlib import Path
from typing import Any, Final

import msgspec

from holdfast.agents.secrets import Secret, resolve_references
from holdfast.agents.subprocesses import run_process
from holdfast.agents.toolbox import tool_factory
from holdfast.agents.tools import Tool
from holdfast.errors import InvalidSetting, Refused
from holdfast.model.limits import MIB
from holdfast.model.time import SECOND, Duration, parse_duration

MEMORY_BYTES_MAX: Final = 2048 * MIB
SHELL_OUTPUT_BYTES_MAX: Final = 64 * 1024
_GRACE_US: Final = 2 * SECOND


class Ran(msgspec.Struct, frozen=True, omit_defaults=True):
    """How a command ended, and its output. `status` is minus the signal, if a signal ended it."""

    status: int
    stdout: str = ""
    stderr: str = ""
    timed_out: bool = False


def shell_tool(
    root: str | PathLike[str],
    *,
    name: str = "shell",
    effect: str = "unsafe",
    approve: Callable[..., bool] | bool | None = None,
    timeout: Duration = "1m",
    memory_max: int | None = MEMORY_BYTES_MAX,
    output_max: int = SHELL_OUTPUT_BYTES_MAX,
    env: Mapping[str, str | Secret] | None = None,
) -> Tool[..., Any]:
    """A tool that runs a shell command in the folder `root`.

    The command has its own process group, which dies with the call and with the worker. It sees the usual settings of
    the environment (PATH, HOME, LANG …), and `env`, whose secrets are looked up for each command. timeout: then the
    group is killed, and the result says so. memory_max: bytes of address space for each process. output_max: bytes
    kept of stdout and of stderr, each: beginning and end. effect: the default is `unsafe`, because the effect of
    repeating an arbitrary command is unknown; declare another class if you know the commands.
    """
    folder = Path(root).resolve()
    if not folder.is_dir():
        msg = f"the folder {str(root)!r} of the shell does not exist"
        raise InvalidSetting(msg, hint="Make the folder first, or name another one.")
    limit_us = parse_duration(timeout)

    async def shell(command: str) -> Ran:
        """Run a command with /bin/sh in the working folder, and return its exit status and what it printed."""
        if "\0" in command:
            msg = "a command cannot hold a NUL character"
            raise Refused(msg, hint="Leave it out; printf '\\0' prints one.")
        try:
            command.encode()
        except UnicodeEncodeError:
            msg = "the command contains an incomplete character (a lone surrogate)"
            raise Refused(msg, hint="Send valid Unicode text.") from None
        ended = await run_process(
            ["/bin/sh", "-c", command],
            cwd=folder,
            env=resolve_references(env or {}),
            timeout=limit_us / SECOND,
            grace=_GRACE_US / SECOND,
            output_max=output_max,
            output_tail=output_max // 2,
            memory_max=memory_max,
        )
        return Ran(ended.status, ended.stdout, ended.stderr, ended.timed_out)

    # The call may take as long as the command, plus the time to end it.
    longest = (limit_us + 5 * _GRACE_US) / SECOND
    return tool_factory.tool(shell, name, tool_factory.terms(effect, timeout=longest, approve=approve))
