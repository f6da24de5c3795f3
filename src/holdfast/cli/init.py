"""`holdfast init`: a small project that runs at once. An agent, its tools, a model that is a file, and a test."""

from __future__ import annotations

from importlib import resources
from pathlib import Path
from typing import Final

import click

from holdfast.cli.output import plain
from holdfast.errors import Conflict, InvalidSetting

FILES: Final = {
    "app.py": "app.py.txt",
    "model.toml": "model.toml.txt",
    "job.json": "job.json.txt",
    "test_app.py": "test_app.py.txt",
    ".gitignore": "gitignore.txt",
}


@click.command()
@click.argument("folder", type=click.Path(path_type=Path), default=Path(), metavar="[FOLDER]")
def init(folder: Path) -> None:
    """Write a small project into a folder, here or named. Nothing that is there is overwritten.

    Example: holdfast init support
    """
    there = [name for name in FILES if (folder / name).exists()]
    if there:
        msg = f"{folder / there[0]} is there already"
        raise Conflict(msg, hint="Name another folder: holdfast init FOLDER. Nothing was written.")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name, template in FILES.items():
            text = resources.files("holdfast.cli").joinpath("scaffold", template).read_text(encoding="utf-8")
            (folder / name).write_text(text, encoding="utf-8")
    except OSError as error:
        msg = f"{folder} cannot be written: {error.strerror}"
        raise InvalidSetting(msg, hint="Name a folder that is yours to write.") from None
    click.echo(f"{', '.join(FILES)} are in {plain(str(folder.resolve()))}. Now:", err=True)
    steps = ["holdfast run --job job.json", "python -m pytest", "holdfast up app.py"]
    for step in [f"cd {folder}", *steps] if folder != Path() else steps:
        click.echo(f"  {plain(step)}", err=True)
