"""Entry point: from the arguments of a command to its exit status. It imports only what `--help` needs."""

from __future__ import annotations

from collections.abc import Sequence

import click

from holdfast.cli.exit_codes import exit_status
from holdfast.errors import HoldfastError


def run(command: click.Command, arguments: Sequence[str] | None = None) -> int:
    """Runs the command; returns its exit status, and explains every error on stderr."""
    try:
        status = command.main(
            None if arguments is None else list(arguments),
            complete_var="_HOLDFAST_COMPLETE",  # the name in the shell's completion script
            standalone_mode=False,
        )
    except click.exceptions.NoArgsIsHelpError as help_wanted:
        click.echo(help_wanted.ctx.get_help(), err=True)
        return 2
    except click.ClickException as usage:
        usage.show()
        return 2
    except (click.Abort, KeyboardInterrupt):
        click.echo("interrupted", err=True)
        return 130
    except HoldfastError as error:
        from holdfast.cli.output import (
            complain,
        )  # imported on an error only: help does not need it

        complain(error)
        return exit_status(error)
    # Click returns the status of an explicit exit as a value when it does not exit itself.
    return status if isinstance(status, int) else 0
