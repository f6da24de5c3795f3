"""What every fact of a journal is."""

from __future__ import annotations

from typing import Any, ClassVar

import msgspec

Json = Any


class Event(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One fact. Subclasses add fields with defaults only, and raise `version` when the meaning changes."""

    type: ClassVar[str]
    version: ClassVar[int] = 1
