"""Goal: a store refuses to live where it could not keep its promise. Method: tell it of places and libraries."""

from __future__ import annotations

from pathlib import Path

import apsw
import pytest

from holdfast.errors import TierNotKept
from holdfast.store.sqlite.connection import OLDEST_LIBRARY, check_library, connect, make_durable
from holdfast.store.sqlite.filesystem import NETWORK, check_place, filesystem_of

pytestmark = pytest.mark.store("sqlite")


def _mounts(*lines: tuple[str, str]) -> str:
    """What the kernel says about these mount points and filesystems."""
    rows = [
        f"{36 + number} 35 98:0 / {point} rw,noatime master:1 - {kind} source rw,errors=continue"
        for number, (point, kind) in enumerate(lines)
    ]
    return "\n".join(
        ["35 1 98:0 / / rw,relatime shared:1 - ext4 /dev/sda1 rw", *rows, "a line of nonsense", ""]
    )


@pytest.mark.parametrize("kind", sorted(NETWORK))
def test_network_filesystem_is_refused(kind: str, tmp_path: Path) -> None:
    """Goal: a log on a network filesystem is never begun. Method: a mount table that has one under the folder."""
    with pytest.raises(TierNotKept, match=kind) as refused:
        check_place(tmp_path / "store.db", _mounts((str(tmp_path.resolve()), kind)))
    assert (refused.value.code, bool(refused.value.hint)) == ("tier_not_kept", True)


@pytest.mark.parametrize("kind", ["ext4", "xfs", "btrfs", "tmpfs", "overlay", "apfs", "zfs", "fuse.portal"])
def test_local_filesystem_is_fine(kind: str, tmp_path: Path) -> None:
    """Goal: what is local is used. Method: a mount table that has it under the folder."""
    check_place(tmp_path / "store.db", _mounts((str(tmp_path.resolve()), kind)))


def test_mount_points_are_told_apart(tmp_path: Path) -> None:
    """Goal: the mount that counts is the innermost one, the last of several there. Method: nested and stacked mounts,
    names that only look alike, and one with a space.
    """
    mounts = _mounts(
        ("/data", "nfs4"), ("/data/local", "ext4"), ("/data/loca", "cifs"), ("/twice", "xfs"), ("/twice", "nfs"),
        ("/with\\040space", "ceph"),
    )  # fmt: skip
    assert filesystem_of(Path("/data/jobs"), mounts) == "nfs4"
    assert filesystem_of(Path("/data/local/jobs"), mounts) == "ext4"
    assert filesystem_of(Path("/data/locale"), mounts) == "nfs4"
    assert filesystem_of(Path("/twice/jobs"), mounts) == "nfs"
    assert filesystem_of(Path("/with space/jobs"), mounts) == "ceph"
    assert filesystem_of(Path("/home"), mounts) == "ext4"
    assert filesystem_of(Path("/home"), "") is None


@pytest.mark.parametrize("version", [3_040_001, 3_051_002])
def test_old_library_is_refused(version: int) -> None:
    """Goal: a library that can lose acknowledged commits is not used. Method: tell the check that it is linked."""
    with pytest.raises(TierNotKept, match=str(OLDEST_LIBRARY)) as refused:
        check_library(version)
    assert "pip install" in refused.value.hint


def test_linked_library_is_new_enough() -> None:
    """Goal: the library of this machine passes. Method: ask it."""
    check_library()
    check_library(OLDEST_LIBRARY)


def test_file_that_cannot_be_switched_to_a_log(tmp_path: Path) -> None:
    """Goal: without a write-ahead log there is no store. Method: a file layer that has no shared memory."""
    path = tmp_path / "store.db"
    path.touch()
    connection = connect(path, vfs="unix-none")
    try:
        with pytest.raises(TierNotKept, match="WAL"):
            make_durable(connection)
    finally:
        connection.close()


def test_settings_are_the_ones_that_promises_rest_on(tmp_path: Path) -> None:
    """Goal: every connection runs with the settings durability rests on. Method: ask the database, not the code."""
    path = tmp_path / "store.db"
    path.touch()
    connection = connect(path)
    try:
        make_durable(connection)
        asked = (
            "journal_mode",
            "synchronous",
            "mmap_size",
            "foreign_keys",
            "trusted_schema",
            "cell_size_check",
        )
        answers = {name: connection.pragma(name) for name in asked}
    finally:
        connection.close()
    assert answers == {
        "journal_mode": "wal",
        "synchronous": 2,
        "mmap_size": 0,
        "foreign_keys": 1,
        "trusted_schema": 0,
        "cell_size_check": 1,
    }
    assert apsw.SQLITE_VERSION_NUMBER >= OLDEST_LIBRARY
