"""The demonstration itself: start everything, kill the worker at three moments, read the receivers' logs.

The receivers trigger the kills at the worst moments: two of three sources are read and the third has not answered yet;
the file is stored and its sender has no reply; the mail is delivered and its sender has no reply.
"""

from __future__ import annotations

import asyncio
import os
import re
import signal
import sys
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final, TypeAlias

import msgspec

from holdfast.api.job_records import EventView, JobView
from holdfast.client.http import RemoteClient
from holdfast.demo import agent
from holdfast.demo.lines import Timeline
from holdfast.demo.outside import SOURCES, Outside
from holdfast.errors import StoreUnavailable
from holdfast.model.worker_identity import identity_in

POLL_S: Final = 0.03
PATIENCE_S: Final = 100.0
ENDS: Final = frozenset({"job_completed", "job_failed", "job_cancelled"})
UP: Final = re.compile(r"Holdfast is up at (\S+),")

Say: TypeAlias = Callable[[str, str, str], None]
"""Prints a time, a line and its style."""


class Verdict(msgspec.Struct, frozen=True):
    """The verdict of the demonstration. The first three fields are from the receivers' own logs. `repeated` counts
    tools, by their own file, and model responses, by the journal, that were run again."""

    pdfs: int
    uploads: int
    mails: int
    repeated: int
    kills: int
    whole: bool
    completed: bool

    @property
    def true(self) -> bool:
        arrived = (self.pdfs, self.uploads, self.mails, self.repeated)
        return arrived == (1, 1, 1, 0) and self.kills == len(MOMENTS) and self.whole and self.completed


MOMENTS: Final = {
    "/sources/storms": "two sources are read, the third has not answered",
    "/files": "the file has arrived, and its sender does not know",
    "mail": "the mail is delivered, and its sender does not know",
}


async def run_story(where: str, folder: Path, say: Say) -> Verdict:
    """Run the job to its end through three kills; returns the verdict."""
    outside = Outside()
    http, smtp = outside.open()
    environment = {"DEMO_HTTP": http, "DEMO_SMTP": smtp, "DEMO_FOLDER": str(folder)}
    try:
        async with (
            asyncio.timeout(PATIENCE_S),
            _run_server(where, environment) as url,
            RemoteClient(url) as client,
        ):
            say("", f"API at {url}, one worker, store {where}", "dim")
            return await _Story(client, outside, folder, say).run()
    finally:
        outside.close()


class _Story:
    def __init__(self, client: RemoteClient, outside: Outside, folder: Path, say: Say) -> None:
        self._client = client
        self._outside = outside
        self._folder = folder
        self._say = say
        self._kills = 0
        self._job_id = ""
        self._timeline = Timeline()
        self._journal: list[EventView] = []

    async def run(self) -> Verdict:
        loop = asyncio.get_running_loop()
        for moment, why in MOMENTS.items():
            self._outside.moments[moment] = self._make_killer(loop, moment, why)
        submitted = await self._client.submit("report", {"topic": "kelp", "to": "ada@example.org"})
        self._job_id = submitted.job_id
        while not self._journal or self._journal[-1].type not in ENDS:
            await self._follow()
            await asyncio.sleep(POLL_S)
        job = await self._client.get(self._job_id)
        checked = await self._client.verify(self._job_id)
        return self._judge(job, whole=not checked.violations)

    async def _follow(self) -> None:
        """Print every new line of the journal."""
        for event in await self._client.events(self._job_id, after=len(self._journal)):
            # The killer follows the journal too, and may have been quicker.
            if event.seq == len(self._journal) + 1:
                self._journal.append(event)
                line = self._timeline.line(event)
                if line is not None:
                    self._say(*line)

    def _make_killer(self, loop: asyncio.AbstractEventLoop, moment: str, why: str) -> Callable[[], None]:
        """Callback for a receiver's thread: returns when the worker is dead."""
        return lambda: asyncio.run_coroutine_threadsafe(self._kill(moment, why), loop).result()

    async def _kill(self, moment: str, why: str) -> None:
        while moment == "/sources/storms" and self._read < len(SOURCES) - 1:
            await self._follow()
            await asyncio.sleep(POLL_S)
        await self._follow()
        holder = identity_in((await self._client.get(self._job_id)).worker or "")
        if holder is None:
            return  # the verdict counts kills
        os.kill(holder.pid, signal.SIGKILL)
        self._kills += 1
        self._say("", f"✗ kill -9 {holder.pid}: {why}", "bold red")

    @property
    def _read(self) -> int:
        """Number of sources that are recorded."""
        return sum(event.type == "step_finished" for event in self._journal)

    def _judge(self, job: JobView, *, whole: bool) -> Verdict:
        witness = Counter((self._folder / agent.WITNESS.name).read_text(encoding="utf-8").splitlines())
        answered = Counter(event.body["step_key"] for event in self._journal if event.type == "llm_responded")
        repeated = sum((witness + answered).values()) - len(witness + answered)
        return Verdict(
            pdfs=sum(file.startswith(b"%PDF") for file in self._outside.files.values()),
            uploads=len(self._outside.files),
            mails=len(self._outside.mails),
            repeated=repeated,
            kills=self._kills,
            whole=whole,
            completed=job.status == "completed",
        )


@asynccontextmanager
async def _run_server(where: str, environment: dict[str, str]) -> AsyncIterator[str]:
    """Run `holdfast up` as a user would; yields its address. It is stopped like by Ctrl-C."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "holdfast", "up", agent.__file__, "--port", "0", "--store", where),
        env=os.environ | environment,
        stdin=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.PIPE,
    )
    assert process.stderr is not None
    output, url = "", None
    while url is None:
        line = (await process.stderr.readline()).decode()
        if not line:
            msg = f"`holdfast up` did not start: {output.strip()}"
            raise StoreUnavailable(msg, hint="Start it by itself to see why: holdfast up --store …")
        output += line
        found = UP.search(line)
        url = None if found is None else found[1]
    rest = asyncio.create_task(process.stderr.read())
    try:
        yield url
    finally:
        process.terminate()
        await rest
        await process.wait()
