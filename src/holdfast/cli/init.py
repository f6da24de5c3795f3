"""`holdfast init`: creates a small project: an agent, its tools, a scripted model, and a test."""

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
    """Create a small project in FOLDER, or here. Existing files are not overwritten.

    Example: holdfast init support
    """
    existing = [name for name in FILES if (folder / name).exists()]
    if existing:
        msg = f"{folder / existing[0]} exists already"
        raise Conflict(msg, hint="Name another folder: holdfast init FOLDER. Nothing was written.")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name, template in FILES.items():
            text = resources.files("holdfast.cli").joinpath("scaffold", template).read_text(encoding="utf-8")
            (folder / name).write_text(text, encoding="utf-8")
    except OSError as error:
        msg = f"{folder} cannot be written: {error.strerror}"
        raise InvalidSetting(msg, hint="Name a folder that you may write to: holdfast init FOLDER.") from None
    click.echo(f"Created {', '.join(FILES)} in {plain(str(folder.resolve()))}. Try:", err=True)
    steps = ["holdfast run --job job.json", "python -m pytest", "holdfast up app.py"]
    for step in [f"cd {folder}", *steps] if folder != Path() else steps:
        click.echo(f"  {plain(step)}", err=True)
