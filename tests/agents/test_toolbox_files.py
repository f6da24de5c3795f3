"""File tools: what is below the root, whole and atomically, and nothing else by any path."""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import Any

import pytest

import holdfast as hf
from holdfast.agents.toolbox import file_tools
from holdfast.agents.toolbox.files import FileEntry
from holdfast.errors import InvalidSetting, Refused
from tests.agents.replies import claude, faults, texts


class Box:
    def __init__(self, root: Path, **bounds: Any) -> None:
        tools = {tool.name: tool for tool in file_tools(root, **bounds)}
        self.read, self.list = tools["read_file"], tools["list_files"]
        self.write = tools["write_file"]
        self.tools = list(tools.values())


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A folder with a secret beside it, and every link that could lead there."""
    root = tmp_path / "root"
    (root / "inner").mkdir(parents=True)
    (tmp_path / "secret").write_text("secret")
    (tmp_path / "outside").mkdir()
    (root / "page").write_text("kelp")
    (root / "link").symlink_to(tmp_path / "secret")
    (root / "up").symlink_to(tmp_path)
    (root / "inner" / "up").symlink_to("../..")
    return root


async def test_what_is_written_is_read_and_listed(root: Path) -> None:
    box = Box(root)
    assert await box.write(path="new/deep/page", text="é\r\n") == 4
    assert (root / "new/deep/page").read_bytes() == "é\r\n".encode()
    assert await box.read(path="./new//deep/page") == "é\r\n"
    assert await box.list(path="new/deep") == [FileEntry("page", "file", 4)]
    listed = {one.name: one.kind for one in await box.list()}
    assert listed == {"inner": "folder", "link": "other", "new": "folder", "page": "file", "up": "other"}
    effects = {tool.name: tool.terms.effect for tool in box.tools}
    assert effects == {"read_file": "read_only", "list_files": "read_only", "write_file": "idempotent"}


OUT = [
    "../secret",
    "/etc/passwd",
    "link",
    "up/secret",
    "inner/up/secret",
    "inner/../../secret",
    "",
    ".",
    "a\0b",
    "\ud800",
]


@pytest.mark.parametrize("path", OUT)
async def test_there_is_no_way_out(root: Path, path: str) -> None:
    """Read and write; after all of it the world outside is as it was."""
    box = Box(root)
    before = sorted(root.parent.rglob("*"))
    with pytest.raises(Refused):
        await box.read(path=path)
    if path != "link":
        with pytest.raises(Refused):
            await box.write(path=path, text="overwritten")
    for folder in ("..", "/", "up", "inner/up", "page"):
        with pytest.raises(Refused):
            await box.list(path=folder)
    assert (root.parent / "secret").read_text() == "secret"
    assert sorted(root.parent.rglob("*")) == before


async def test_writing_over_a_link_replaces_the_link(root: Path) -> None:
    await Box(root).write(path="link", text="mine")
    assert not (root / "link").is_symlink()
    assert (root / "link").read_text() == "mine"
    assert (root.parent / "secret").read_text() == "secret"


async def test_a_link_in_place_of_a_folder_makes_none_behind_it(root: Path) -> None:
    with pytest.raises(Refused):
        await Box(root).write(path="up/outside/page", text="x")
    assert not list((root.parent / "outside").iterdir())


async def test_a_root_that_is_reached_by_a_link_is_fine(root: Path) -> None:
    (root.parent / "way").symlink_to(root)
    assert await Box(root.parent / "way").read(path="page") == "kelp"


async def test_bounds(root: Path) -> None:
    box = Box(root, read_max=10, write_max=10)
    (root / "long").write_text("0123456789abcdefghijklmnop")
    first = await box.read(path="long")
    assert first == "0123456789\n[… 16 bytes left; read on with start=10 …]"
    assert await box.read(path="long", start=20) == "klmnop"
    assert await box.read(path="long", start=100) == ""
    assert await box.write(path="ten", text="x" * 10) == 10
    with pytest.raises(Refused, match="11 bytes, more than the limit of 10"):
        await box.write(path="page", text="x" * 11)
    assert (root / "page").read_text() == "kelp"


async def test_what_is_no_file_is_refused(root: Path) -> None:
    os.mkfifo(root / "pipe")
    box = Box(root)
    for path in ("pipe", "inner", "nothing", "page/x"):
        with pytest.raises(Refused):
            await box.read(path=path)
    for path in ("inner", "page/x", "n" * 300):
        with pytest.raises(Refused):
            await box.write(path=path, text="x")
    with pytest.raises(Refused, match="half of a character"):
        await box.write(path="page", text="\ud800")
    assert sorted(one.name for one in root.iterdir()) == ["inner", "link", "page", "pipe", "up"], (
        "nothing left over"
    )


async def test_permissions_stay_and_no_bits_are_added(root: Path) -> None:
    (root / "page").chmod(0o640)
    await Box(root).write(path="page", text="new")
    assert stat.S_IMODE((root / "page").stat().st_mode) == 0o640


async def test_many_entries_are_counted(root: Path) -> None:
    for nth in range(1_001):
        (root / "inner" / f"{nth:04}").touch()
    listed = await Box(root).list(path="inner")
    assert len(listed) == 1_001
    assert listed[-1].name == "[… 2 more …]"


def test_reading_only(root: Path) -> None:
    assert [tool.name for tool in file_tools(root, writing=False, prefix="notes_")] == [
        "notes_read_file",
        "notes_list_files",
    ]
    with pytest.raises(InvalidSetting, match="does not exist"):
        file_tools(root / "nothing")


@pytest.mark.store("sqlite")
async def test_a_model_works_on_files(root: Path, tmp_path: Path) -> None:
    app = hf.App(store=f"sqlite:///{tmp_path / 'test.db'}")
    box = Box(root)

    @app.agent
    async def program() -> list[Any]:
        wrote = await hf.run_tools(claude([("write_file", {"path": "a", "text": "A"})]), box.tools)
        asks: list[Any] = [("read_file", {"path": "a"}), ("read_file", {"path": "../secret"})]
        return [wrote, await hf.run_tools(claude(asks), box.tools)]

    async with app.running():
        wrote, read = await program()
    assert texts(wrote) == ["1"]
    assert (texts(read)[0], faults(read)) == ("A", [None, "tool_failed"])
    assert "is not below the root" in texts(read)[1]
    assert sorted(one.name for one in root.iterdir()) == ["a", "inner", "link", "page", "up"]
