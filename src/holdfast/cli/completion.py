"""`holdfast completion`: prints a shell completion script."""

from __future__ import annotations

import click

_WHERE = {"bash": "~/.bashrc", "zsh": "~/.zshrc", "fish": "~/.config/fish/completions/holdfast.fish"}


@click.command()
@click.argument("shell", type=click.Choice(list(_WHERE)))
def completion(shell: str) -> None:
    """Print the completion script of a shell.

    bash, zsh: add eval "$(holdfast completion bash)" to ~/.bashrc or ~/.zshrc. fish: see the example.

    Example: holdfast completion fish > ~/.config/fish/completions/holdfast.fish
    """
    from click.shell_completion import get_completion_class

    from holdfast.cli.root import holdfast

    kind = get_completion_class(shell)
    assert kind is not None, f"click knows {shell}"
    click.echo(kind(holdfast, {}, "holdfast", "_HOLDFAST_COMPLETE").source())
