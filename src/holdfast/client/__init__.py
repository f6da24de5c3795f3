"""Clients: `Client` has a method for each operation, over a transport: `EmbeddedClient` works over an open store,
`RemoteClient` through a server. `BlockingClient` is the same without await; `ExternalAgent` takes work of a server."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from holdfast.client.blocking_client import BlockingClient
    from holdfast.client.external_agent import ExternalAgent
    from holdfast.client.external_work import Unrecoverable, WorkAssignment
    from holdfast.client.http import RemoteClient

_WHERE: Final = {
    "BlockingClient": "holdfast.client.blocking_client",
    "ExternalAgent": "holdfast.client.external_agent",
    "RemoteClient": "holdfast.client.http",
    "Unrecoverable": "holdfast.client.external_work",
    "WorkAssignment": "holdfast.client.external_work",
}

__all__ = ["BlockingClient", "ExternalAgent", "RemoteClient", "Unrecoverable", "WorkAssignment"]


def __getattr__(name: str) -> Any:
    """Imports a class when it is first used: a command without HTTP does not load the HTTP client."""
    if name not in _WHERE:
        msg = f"module 'holdfast.client' has no attribute {name!r}"
        raise AttributeError(msg)
    return getattr(importlib.import_module(_WHERE[name]), name)
