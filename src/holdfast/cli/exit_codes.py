"""Exit statuses: 0 done, 2 usage, 3 not found, 4 conflict, 5 unavailable, 1 anything else."""

from __future__ import annotations

from typing import Final

from holdfast.errors import (
    Broken,
    Conflict,
    HoldfastError,
    InvalidMove,
    InvalidSetting,
    Misuse,
    NotFound,
    Unavailable,
    Unfit,
)

EXITS: Final[dict[type[HoldfastError], int]] = {
    NotFound: 3,
    InvalidMove: 4,
    InvalidSetting: 2,
    Misuse: 2,
    Conflict: 4,
    Unavailable: 5,
    Unfit: 1,
    Broken: 1,
}


def exit_status(error: HoldfastError) -> int:
    """The status for this error: that of the nearest class in the table."""
    return next((EXITS[kind] for kind in type(error).__mro__ if kind in EXITS), 1)
