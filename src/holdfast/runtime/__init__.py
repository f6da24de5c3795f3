"""Runtime: the composition root, where the parts of a process are put together."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from holdfast.runtime.store_opener import open_store as open_store


def __getattr__(name: str) -> Any:
    """`open_store`, imported at its first use: some callers use other parts of this package and open no store."""
    if name != "open_store":
        msg = f"module 'holdfast.runtime' has no attribute {name!r}"
        raise AttributeError(msg)
    return importlib.import_module("holdfast.runtime.store_opener").open_store
