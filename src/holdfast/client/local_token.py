"""Local token: the token of a server on this machine. Every user who may read the file may write through the server.

A server on loopback makes one at each start and stores it where only its own user can read it:

    ~/.local/state/holdfast/tokens/127.0.0.1_8080        0600, in a folder that is 0700; $XDG_STATE_HOME, if it is set

The command line of the same user finds it by the server's address. The server removes the file when it ends; a killed
server leaves an invalid token, until the next start on that port replaces it.
"""

from __future__ import annotations

import ipaddress
import os
from contextlib import suppress
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

_LOOPBACK: Final = ("127.0.0.1", "::1")
_DEFAULT_PORTS: Final = {"http": 80, "https": 443}


def folder() -> Path:
    """The folder of the tokens."""
    base = os.environ.get("XDG_STATE_HOME") or "~/.local/state"
    return Path(base).expanduser() / "holdfast" / "tokens"


def write_token(url: str, token: str) -> Path:
    """Stores the token of the server at this address where its user's commands look for it."""
    (path, *_) = _places(url)
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    path.parent.chmod(0o700)
    growing = path.with_name(f".{path.name}.{os.getpid()}")
    growing.unlink(missing_ok=True)
    with os.fdopen(os.open(growing, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
        file.write(token)
    growing.replace(path)
    return path


def remove_token(url: str, token: str) -> None:
    """Removes the token, unless another server has replaced it."""
    for path in _places(url):
        with suppress(OSError):
            if path.read_text() == token:
                path.unlink()


def find_token(url: str) -> str | None:
    """The token of the server at this address, if it is a server of this user on this machine."""
    with suppress(RuntimeError):  # there is no home directory
        for path in _places(url):
            with suppress(OSError), path.open() as file:
                state = os.fstat(file.fileno())
                if state.st_uid == os.getuid() and not state.st_mode & 0o077:
                    return file.read().strip() or None
    return None


def _places(url: str) -> list[Path]:
    """The files that may hold a token for this address; none for an address on another machine."""
    parts = urlsplit(url)
    host, port = parts.hostname or "", parts.port or _DEFAULT_PORTS.get(parts.scheme, 0)
    hosts = _LOOPBACK if host == "localhost" else (host,) if _is_loopback(host) else ()
    return [folder() / f"{candidate.replace(':', '-')}_{port}" for candidate in hosts]


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
