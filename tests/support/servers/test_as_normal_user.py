"""The servers start for root and for a normal user alike."""

from __future__ import annotations

import subprocess
import sys

# Root becomes `nobody` for the second round. The first round, as root, has loaded every module by then, so
# that the interpreter itself may lie where `nobody` cannot read (pyenv under /root). The servers' programs
# are copied to where it can.
SCRIPT = """
import asyncio, os, shutil, tempfile
from dataclasses import replace
from pathlib import Path
from tests.support.servers import NatsServer, PostgresServer, find_nats, find_postgres, places

async def query(server):
    connection = await server.connect()
    await connection.fetchval("SELECT 1")
    await connection.close()

def play(postgres, nats):
    with PostgresServer(binaries=postgres) as server:
        asyncio.run(query(server))
        server.kill()
        server.restart()
        asyncio.run(query(server))
        owner = (server.folder / "data").stat().st_uid
    with NatsServer(binary=nats) as server:
        server.kill()
        server.restart()
    return owner

postgres, nats, nobody = find_postgres(), find_nats(), places.unprivileged()
owner = play(postgres, nats)
if nobody is not None:
    assert owner == nobody.uid
    with tempfile.TemporaryDirectory(dir="/tmp") as folder:
        home = Path(folder)
        postgres = replace(postgres, folder=places.reachable(postgres.folder, nobody, home))
        nats = replace(nats, path=Path(shutil.copy2(nats.path, home)))
        places.give(home, nobody)
        os.chdir("/")
        os.setgroups([])
        os.setgid(nobody.gid)
        os.setuid(nobody.uid)
        owner = play(postgres, nats)
assert owner == os.getuid() != 0
print("as", os.getuid())
"""


def test_every_user_can_start_the_servers() -> None:
    """Start, query, kill and restart work as the current user and, if that is root, again as `nobody`."""
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", SCRIPT], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("as ")
