"""`holdfast chat`: a conversation with an agent, on a terminal or through a pipe.

A line is a message and a job. On a terminal the answer appears as the model streams it; into a pipe it is written
when it is complete. Ctrl-C cancels the current turn and nothing else: its output is no longer shown, even before the
worker has read the cancel. At the prompt it ends the chat. The session stays either way, and the command that is
printed continues it.
"""

from __future__ import annotations

import asyncio
import os
import shlex
import signal
import sys
import threading
from contextlib import aclosing

import click

from holdfast.agents.configured_agents import session_with
from holdfast.agents.conversation import Session
from holdfast.agents.models.wire_format import TEXT
from holdfast.cli.open_store import client_at, server, store_for
from holdfast.cli.options import app_store_option
from holdfast.cli.output import complain, plain, wait_for
from holdfast.cli.remote_chat import FarSession, Posts, RemoteQuestion
from holdfast.errors import HoldfastError, JobCancelled, NotFound
from holdfast.model.ids import RandomIds
from holdfast.model.streams import AttemptSuperseded
from holdfast.runtime.app import App
from holdfast.runtime.app_loader import load
from holdfast.runtime.process import ForegroundProcess, Process, open_process


@click.command()
@click.argument("agent")
@click.option("--session", "session_id", metavar="ID", help="Continue this conversation, or start it.")
@click.option("--app", "app_at", envvar="HOLDFAST_APP", help="The application: its tools and agents.")
@app_store_option
def chat(agent: str, session_id: str | None, app_at: str | None, where: str) -> None:
    """Talk to an agent: one of `holdfast agent list`, or a session of the application.

    Ctrl-C cancels the current answer; at the prompt, Ctrl-C or Ctrl-D ends the chat. With HOLDFAST_API_URL the workers
    of that server answer; otherwise this process does.

    Example: holdfast chat helper --session ada
    """
    sys.exit(wait_for(_chat(agent, session_id, app_at, where)))


async def _chat(agent: str, session_id: str | None, app_at: str | None, where: str) -> int:
    if server():
        return await _chat_from_afar(agent, session_id, app_at, where)
    app = App(where) if app_at is None else load(app_at)
    where = store_for(app, where)
    process = await open_process(
        app.programs(),
        where,
        offer=app.offer(concurrency=app.concurrency),
        strict=app.strict,
        process_class=ForegroundProcess,
        serving=False,
        on_undurable=app.choose_on_undurable("warn"),
    )
    try:
        chosen_session = session_id or RandomIds().new("session")
        session = await _session(process, app, agent, chosen_session)
        command = ["holdfast", "chat", agent, "--session", chosen_session, "--store", where]
        command += [] if app_at is None else ["--app", app_at]
        failed = await _Talk(session).go_on()
        click.echo(f"continue it: {plain(shlex.join(command))}", err=True)
        return int(failed)
    finally:
        await process.close()


async def _chat_from_afar(agent: str, session_id: str | None, app_at: str | None, where: str) -> int:
    """Chats through a server: its workers answer."""
    if app_at is not None:
        click.echo("--app is ignored: the workers of the server have the code", err=True)
    async with client_at(where) as client:
        agent_view = await client.get_agent(agent)
        chosen_session = session_id or RandomIds().new("session")
        if not (await client.list_workers(limit=1)).items:
            click.echo("no worker is running: answers come as soon as one starts (holdfast worker)", err=True)
        failed = await _Talk(FarSession(client, agent_view.name, chosen_session)).go_on()
        command = ["holdfast", "chat", agent, "--session", chosen_session]
        click.echo(f"continue it: {plain(shlex.join(command))}", err=True)
        return int(failed)


async def _session(process: Process, app: App, agent: str, session_id: str) -> Session:
    async def host() -> Process:
        return process

    if agent in app.sessions:
        declared = app.sessions[agent]
        return Session(session_id, declared, host)
    configured = await process.store.agents.find(agent)
    if configured is None:
        names = [agent_row.name for agent_row in await process.store.agents.list()]
        msg = f"there is no agent called {agent!r}"
        raise NotFound(
            msg,
            hint=f"Agents: {', '.join(sorted({*names, *app.sessions})) or 'none'}. "
            f"Create one: holdfast agent create {agent}",
        )
    return session_with(configured, session_id, host)


class _Talk:
    """Reads lines, and prints answers."""

    def __init__(self, session: Posts) -> None:
        self._session = session
        self._terminal = sys.stdin.isatty() and sys.stdout.isatty()
        self._lines: asyncio.Queue[str | None] = asyncio.Queue()
        self._job: RemoteQuestion | None = None
        self._stopped: str | None = None

    async def go_on(self) -> bool:
        """Runs until the input ends; returns whether the last message got no answer."""
        loop = asyncio.get_running_loop()
        loop.add_signal_handler(signal.SIGINT, self._interrupt)
        threading.Thread(target=_read, args=(loop, self._lines), daemon=True).start()
        failed = False
        try:
            while (line := await self._next()) is not None:
                if line.strip():
                    failed = not await self._answered(line)
        finally:
            loop.remove_signal_handler(signal.SIGINT)
        return failed

    async def _next(self) -> str | None:
        if self._terminal:
            click.secho("> ", nl=False, bold=True)
        return await self._lines.get()

    def _interrupt(self) -> None:
        if self._job is None:
            self._lines.put_nowait(None)
        elif self._stopped != self._job.id:
            self._stopped = self._job.id
            self._cancelling = asyncio.ensure_future(self._job.cancel("Ctrl-C"))

    async def _answered(self, line: str) -> bool:
        """Posts the line and prints the answer; returns whether there was one. An error is printed, and the
        conversation continues."""
        try:
            job = self._job = await self._session.post(line)
        except HoldfastError as error:
            complain(error)
            return False
        watching = asyncio.ensure_future(self._watched(job))
        try:
            answer = await job.result()
            if not (await watching).endswith(answer):
                too_late = self._stopped == job.id
                click.echo(("\n" if too_late else "") + plain(answer), nl=False)
            click.echo()
        except JobCancelled:
            click.echo("\n" if self._terminal else "", nl=False)
            click.echo("cancelled: the conversation is unchanged", err=True)
            return False
        except HoldfastError as error:
            complain(error)
            return False
        finally:
            watching.cancel()
            self._job = None
        return True

    async def _watched(self, job: RemoteQuestion) -> str:
        """The text that the model streamed; on a terminal it is printed as it arrives, elsewhere the stream is not
        read."""
        text = ""
        if not self._terminal:
            return text
        async with aclosing(job.stream(stream=TEXT)) as chunks:
            async for chunk in chunks:
                if self._stopped == job.id:
                    break
                if isinstance(chunk, AttemptSuperseded):
                    click.secho("\n(new attempt)", dim=True, err=True)
                    text = ""
                elif isinstance(chunk.said, str):
                    text += chunk.said
                    click.echo(plain(chunk.said), nl=False)
        return text


def _read(loop: asyncio.AbstractEventLoop, lines: asyncio.Queue[str | None]) -> None:
    """Reads lines of the input for the event loop, which must not block. It bypasses Python's own buffer, whose lock
    a left-over thread would keep."""
    rest = b""
    while data := os.read(sys.stdin.fileno(), 1 << 16):
        *whole, rest = (rest + data).split(b"\n")
        for line in whole:
            loop.call_soon_threadsafe(lines.put_nowait, line.decode("utf-8", "replace"))
    if rest:
        loop.call_soon_threadsafe(lines.put_nowait, rest.decode("utf-8", "replace"))
    loop.call_soon_threadsafe(lines.put_nowait, None)
