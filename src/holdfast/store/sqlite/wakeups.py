"""Wake-ups between processes on one file: a datagram to everybody who listens beside it.

Whoever waits has a socket in the folder `<database>-wake` from its first wait on, and reads topics from it. Telling the
others is one datagram to each socket there, so a store that only writes costs the others nothing; a socket whose
process is gone refuses it and is removed. A full buffer, a lost datagram or a platform without such sockets costs a
poll interval, nothing else.

The address of a socket has room for about a hundred bytes, and projects lie in deeper folders than that. There the
folder is held open, and its sockets are addressed through its descriptor, which Linux allows; elsewhere such a store
polls.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
from collections.abc import Iterable
from collections.abc import Set as AbstractSet
from pathlib import Path
from typing import Final

from holdfast.store.wakeup_board import HintBoard

ADDRESS_BYTES: Final = 100
DESCRIPTORS: Final = "/proc/self/fd"
DATAGRAM_BYTES: Final = 8192
BIND_TRIES: Final = 100


class FileWakeups:
    """Hints for the waiters of one open store, and from it to the others on the same file."""

    def __init__(self, database: Path, name: str) -> None:
        self._board = HintBoard()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._folder = database.with_name(database.name + "-wake")
        self._name = f"{os.getpid()}-{name}"
        self._deep = len(os.fsencode(self._folder / self._name)) > ADDRESS_BYTES
        self._held: int | None = None
        self._socket = _datagrams()
        self._bound = False

    def listen(self) -> bool:
        """Whether others can tell us something, from now on."""
        if self._socket is None or self._bound:
            return self._bound
        for _ in range(BIND_TRIES):
            try:
                self._folder.mkdir(mode=0o700, exist_ok=True)
                self._hold()
                self._socket.bind(_address(self._folder, self._held, self._name))
            except (FileNotFoundError, FileExistsError):
                continue  # whoever was the last to leave has just taken the folder away
            except OSError:
                break
            self._bound = True
            return True
        self._let_go()
        return False

    def _hold(self) -> None:
        """A folder too deep for an address is open. It stays the same one while our socket lies in it: only an empty
        folder can be taken away."""
        self._let_go()
        if self._deep:
            self._held = os.open(self._folder, os.O_RDONLY | os.O_DIRECTORY)

    def _let_go(self) -> None:
        if self._held is not None:
            os.close(self._held)
            self._held = None

    async def wait(self, topics: AbstractSet[str], timeout_s: float) -> frozenset[str]:
        self._listen_on(asyncio.get_running_loop())
        return await self._board.wait(topics, timeout_s)

    def hint(self, topic: str) -> None:
        self.spread((topic,))

    def spread(self, topics: Iterable[str]) -> None:
        """Everybody who waits for one of these topics is told, here and in other processes. Any thread may call it."""
        told = tuple(dict.fromkeys(topics))
        if not told:
            return
        if self._socket is not None:
            self._send("\n".join(told).encode()[:DATAGRAM_BYTES])
        if self._loop is None or self._loop is _here():
            # Nobody waits yet, so nobody else looks at the board, and the hints are kept for whoever will; or whoever
            # waits does so on this thread.
            self._board.deliver(told)
        elif not self._loop.is_closed():
            with contextlib.suppress(RuntimeError):
                self._loop.call_soon_threadsafe(self._board.deliver, told)

    def _send(self, message: bytes) -> None:
        assert self._socket is not None
        try:
            folder = os.open(self._folder, os.O_RDONLY | os.O_DIRECTORY) if self._deep else None
        except OSError:
            return  # nobody listens
        try:
            for entry in os.scandir(self._folder if folder is None else folder):
                if entry.name != self._name:
                    self._send_to(entry.name, folder, message)
        except OSError:
            return
        finally:
            if folder is not None:
                os.close(folder)

    def _send_to(self, name: str, folder: int | None, message: bytes) -> None:
        assert self._socket is not None
        try:
            self._socket.sendto(message, _address(self._folder, folder, name))
        except (ConnectionRefusedError, FileNotFoundError):
            # Its process is gone; nobody else will ever bind this name again.
            with contextlib.suppress(OSError):
                (self._folder / name).unlink()
        except OSError:
            pass

    def _listen_on(self, loop: asyncio.AbstractEventLoop) -> None:
        if self._loop is loop:
            return
        self._loop = loop
        if self.listen():
            assert self._socket is not None
            loop.add_reader(self._socket.fileno(), self._receive)

    def _receive(self) -> None:
        assert self._socket is not None
        with contextlib.suppress(OSError):
            message = self._socket.recv(DATAGRAM_BYTES)
            self._board.deliver(message.decode(errors="replace").split("\n"))

    def close(self) -> None:
        if self._socket is None:
            return
        if self._bound and self._loop is not None and not self._loop.is_closed():
            self._loop.remove_reader(self._socket.fileno())
        self._socket.close()
        self._socket = None
        self._let_go()
        if self._bound:
            self._bound = False
            with contextlib.suppress(OSError):
                (self._folder / self._name).unlink()
            with contextlib.suppress(OSError):
                self._folder.rmdir()


def _here() -> asyncio.AbstractEventLoop | None:
    """The event loop that runs on this thread."""
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None


def _datagrams() -> socket.socket | None:
    if not hasattr(socket, "AF_UNIX"):
        return None
    try:
        made = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    except OSError:
        return None
    made.setblocking(False)
    return made


def _address(folder: Path, held: int | None, name: str) -> str:
    return str(folder / name) if held is None else f"{DESCRIPTORS}/{held}/{name}"
