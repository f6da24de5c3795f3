"""No server outlives the process that started it, even one that is killed and can clean up nothing."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.servers.processes import alive, wait_until

OWNER = """
import sys
from tests.support.servers import NatsServer, PostgresServer
from tests.support.servers.processes import children

server = {make}
server.start()
print(server.folder, server.pid, server._watchdog.pid, *children(server.pid), flush=True)
sys.stdin.read()
"""


@pytest.mark.parametrize("make", ["PostgresServer()", "NatsServer()"])
def test_a_killed_owner_leaves_nothing(make: str) -> None:
    """kill -9 of a Python process that runs a server ends the server, its children and its folder."""
    with subprocess.Popen(
        [sys.executable, "-c", OWNER.format(make=make)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as owner:
        assert owner.stdout is not None
        folder, *family = owner.stdout.readline().split()
        assert all(alive(int(pid)) for pid in family)
        os.kill(owner.pid, signal.SIGKILL)
    wait_until(lambda: not any(alive(int(pid)) for pid in family), "the server to follow its owner")
    assert not Path(folder).exists()


@pytest.mark.parametrize("make", ["PostgresServer()", "NatsServer()"])
def test_an_owner_that_forgets_leaves_nothing(make: str) -> None:
    """A Python process that ends in good order without calling stop leaves nothing either."""
    done = subprocess.run(
        [sys.executable, "-c", OWNER.format(make=make)], input="", capture_output=True, text=True, check=True
    )
    folder, *family = done.stdout.split()
    wait_until(lambda: not any(alive(int(pid)) for pid in family), "the server to follow its owner")
    assert not Path(folder).exists()
