"""A command from its arguments to its exit status. Only what `--help` needs is imported here."""

from __future__ import annotations

from collections.abc import Sequence

import click

from holdfast.cli.exit_codes import exit_status
from holdfast.errors import HoldfastError


def run(command: click.Command, arguments: Sequence[str] | None = None) -> int:
    """The exit status of the command, everything that can go wrong explained on stderr."""
    try:
        status = command.main(
            None if arguments is None else list(arguments),
            complete_var="_HOLDFAST_COMPLETE",  # however it was started: the script of the shell asks by this name
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
        )  # with all that a command needs to speak; help needs none of it

        complain(error)
        return exit_status(error)
    # Click hands the status of an explicit exit back as a value when it does not exit itself.
    return status if isinstance(status, int) else 0
