"""One way to speak to Holdfast from outside a job: `protocol` says what, `embedded` does it over an open store, and
`remote` through a server in front of one. `ExternalAgent` takes work from such a server, from anywhere."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from holdfast.client.external_agent import ExternalAgent
    from holdfast.client.external_work import Unrecoverable, Work
    from holdfast.client.remote import RemoteClient

_WHERE: Final = {
    "ExternalAgent": "holdfast.client.external_agent",
    "RemoteClient": "holdfast.client.remote",
    "Unrecoverable": "holdfast.client.external_work",
    "Work": "holdfast.client.external_work",
}

__all__ = ["ExternalAgent", "RemoteClient", "Unrecoverable", "Work"]


def __getattr__(name: str) -> Any:
    """Loaded when it is first used: a command that never speaks HTTP does not pay for it."""
    if name not in _WHERE:
        msg = f"module 'holdfast.client' has no attribute {name!r}"
        raise AttributeError(msg)
    return getattr(importlib.import_module(_WHERE[name]), name)
