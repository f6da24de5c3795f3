"""Wake-ups between processes on one file: a datagram to each process that listens beside the file.

A process that waits has a socket in the folder `<database>-wake` from its first wait on, and reads topics from it. A
process that sends a hint sends one datagram to each socket there, so a store that only writes receives none. The socket
of a dead process refuses the datagram and is removed. A full buffer, a lost datagram or a platform without such sockets
costs a poll interval, nothing else.

The address of a socket has room for about a hundred bytes, and some projects lie in folders with longer paths. There
the folder is held open, and its sockets are addressed through its descriptor, which Linux allows; on other systems such
a store polls.
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
    """Wake-ups of one open store: delivers hints to its waiters, and sends hints to the other processes on the file."""

    def __init__(self, database: Path, name: str) -> None:
        self._board = HintBoard()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._folder = database.with_name(database.name + "-wake")
        self._name = f"{os.getpid()}-{name}"
        self._deep = len(os.fsencode(self._folder / self._name)) > ADDRESS_BYTES
        self._held: int | None = None
        self._socket = _open_socket()
        self._bound = False

    def listen(self) -> bool:
        """Bind the socket; returns whether other processes can send hints to this one from now on."""
        if self._socket is None or self._bound:
            return self._bound
        for _ in range(BIND_TRIES):
            try:
                self._folder.mkdir(mode=0o700, exist_ok=True)
                self._open_folder()
                self._socket.bind(_format_address(self._folder, self._held, self._name))
            except (FileNotFoundError, FileExistsError):
                continue  # another process has just left as the last one, and removed the folder
            except OSError:
                break
            self._bound = True
            return True
        self._close_folder()
        return False

    def _open_folder(self) -> None:
        """Hold the folder open if its path is too long for an address. It stays the same folder while our socket lies
        in it: only an empty folder can be removed."""
        self._close_folder()
        if self._deep:
            self._held = os.open(self._folder, os.O_RDONLY | os.O_DIRECTORY)

    def _close_folder(self) -> None:
        if self._held is not None:
            os.close(self._held)
            self._held = None

    async def wait(self, topics: AbstractSet[str], timeout_s: float) -> frozenset[str]:
        self._listen_on(asyncio.get_running_loop())
        return await self._board.wait(topics, timeout_s)

    def hint(self, topic: str) -> None:
        self.send_wakeups((topic,))

    def send_wakeups(self, topics: Iterable[str]) -> None:
        """Send hints to every waiter for one of these topics, in this process and in others. Any thread may call it."""
        unique = tuple(dict.fromkeys(topics))
        if not unique:
            return
        if self._socket is not None:
            self._send("\n".join(unique).encode()[:DATAGRAM_BYTES])
        if self._loop is None or self._loop is _find_running_loop():
            # No task has waited yet, so no other thread uses the board, and it keeps the hints for the first waiter; or
            # the waiters are on this thread.
            self._board.deliver(unique)
        elif not self._loop.is_closed():
            with contextlib.suppress(RuntimeError):
                self._loop.call_soon_threadsafe(self._board.deliver, unique)

    def _send(self, message: bytes) -> None:
        assert self._socket is not None
        try:
            folder = os.open(self._folder, os.O_RDONLY | os.O_DIRECTORY) if self._deep else None
        except OSError:
            return  # no process listens
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
            self._socket.sendto(message, _format_address(self._folder, folder, name))
        except (ConnectionRefusedError, FileNotFoundError):
            # Its process has ended; no other process ever binds this name.
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
        self._close_folder()
        if self._bound:
            self._bound = False
            with contextlib.suppress(OSError):
                (self._folder / self._name).unlink()
            with contextlib.suppress(OSError):
                self._folder.rmdir()


def _find_running_loop() -> asyncio.AbstractEventLoop | None:
    """The event loop that runs on this thread."""
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None


def _open_socket() -> socket.socket | None:
    if not hasattr(socket, "AF_UNIX"):
        return None
    try:
        datagrams = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    except OSError:
        return None
    datagrams.setblocking(False)
    return datagrams


def _format_address(folder: Path, held: int | None, name: str) -> str:
    return str(folder / name) if held is None else f"{DESCRIPTORS}/{held}/{name}"
