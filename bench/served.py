"""A server as a process of its own, for whoever speaks HTTP to it."""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import sys
import tempfile
from collections.abc import AsyncIterator


@contextlib.asynccontextmanager
async def serving(address: str, **environment: str) -> AsyncIterator[str]:
    """Where `holdfast serve` in front of this store listens, one process."""
    with tempfile.TemporaryDirectory(prefix="holdfast-bench-") as folder:
        os.environ["XDG_STATE_HOME"] = folder  # where the server leaves its token
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "holdfast", "serve", "--port", "0", "--store", address),
            stderr=asyncio.subprocess.PIPE,
            cwd=folder,
            env={**os.environ, **environment},
        )
        assert process.stderr is not None
        url = None
        while url is None:
            line = (await process.stderr.readline()).decode()
            assert line, "holdfast serve did not get up"
            found = re.search(r"listening on (http://\S+);", line)
            url = None if found is None else found[1]
        draining = asyncio.create_task(process.stderr.read())
        try:
            yield url
        finally:
            process.terminate()
            await draining
            await process.wait()
