"""Event: the base class of everything in a journal."""

from __future__ import annotations

from typing import Any, ClassVar

import msgspec

Json = Any


class Event(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One event. Subclasses add fields with defaults only, and raise `version` when the meaning changes."""

    type: ClassVar[str]
    version: ClassVar[int] = 1
