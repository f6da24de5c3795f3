"""Two hosts and a cable between them: network namespaces with a veth pair. Needs root, and Linux.

Neither is the namespace of the test, and nothing leads out of them. The addresses are of a range that is kept for
examples.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager


class Hosts:
    """`here` has the server, `there` is the other end of the cable."""

    address = "192.0.2.1"
    other = "192.0.2.2"

    def __init__(self) -> None:
        self.here = f"hf-here-{os.getpid()}"
        self.there = f"hf-there-{os.getpid()}"

    def on(self, host: str) -> tuple[str, ...]:
        """What a command begins with to run on this host."""
        return ("nsenter", f"--net=/run/netns/{host}")

    def make(self) -> None:
        for host in (self.here, self.there):
            _ip("netns", "add", host)
            _ip("-n", host, "link", "set", "lo", "up")
        _ip(
            *("link", "add", "cable", "netns", self.here, "type", "veth"),
            *("peer", "name", "cable", "netns", self.there),
        )
        _ip("-n", self.here, "address", "add", f"{self.address}/30", "dev", "cable")
        _ip("-n", self.there, "address", "add", f"{self.other}/30", "dev", "cable")
        for host in (self.here, self.there):
            _ip("-n", host, "link", "set", "cable", "up")

    def cut(self, how: str) -> None:
        """`cable`: it is pulled. `answers`: what the server sends is lost, what is sent to it arrives."""
        if how == "cable":
            _ip("-n", self.here, "link", "set", "cable", "down")
        else:
            _ip("-n", self.here, "route", "add", "blackhole", f"{self.other}/32")

    def heal(self, how: str) -> None:
        if how == "cable":
            _ip("-n", self.here, "link", "set", "cable", "up")
        else:
            _ip("-n", self.here, "route", "delete", "blackhole", f"{self.other}/32")

    def remove(self) -> None:
        for host in (self.here, self.there):
            subprocess.run(["ip", "netns", "delete", host], check=False, capture_output=True)


def _ip(*arguments: str) -> None:
    done = subprocess.run(["ip", *arguments], check=False, capture_output=True, text=True)
    assert done.returncode == 0, (arguments, done.stderr)


@contextmanager
def hosts() -> Iterator[Hosts]:
    made = Hosts()
    try:
        made.make()
        yield made
    finally:
        made.remove()
