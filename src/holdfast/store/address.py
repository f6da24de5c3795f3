"""Store address: parses the URL that a user writes."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import msgspec

from holdfast.errors import InvalidSetting

DEFAULT: Final = "sqlite:///holdfast.db"


class Address(msgspec.Struct, frozen=True):
    """`kind` is memory, sqlite or postgres; `where` is the file or the whole URL."""

    kind: str
    where: str

    @property
    def path(self) -> Path:
        return Path(self.where)


def parse(text: str) -> Address:
    """Parse `sqlite:///file.db`, `postgresql://…` or `memory:`. Raises InvalidSetting for anything else."""
    if text == "memory:":
        return Address("memory", "")
    if text.startswith("sqlite:///"):
        where = text.removeprefix("sqlite:///")
        if where:
            return Address("sqlite", where)
    if text.startswith(("postgresql://", "postgres://")):
        return Address("postgres", text)
    msg = f"{text!r} is not the address of a store"
    raise InvalidSetting(msg)
