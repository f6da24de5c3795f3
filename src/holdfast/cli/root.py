"""`holdfast`: commands are loaded when they are used, so that `--help` is quick."""

from __future__ import annotations

import importlib
from typing import Final

import click
from click.shell_completion import CompletionItem

_COMMANDS: Final = {
    "init": ("holdfast.cli.init", "init", "Begin a small project that runs at once."),
    "up": ("holdfast.cli.up", "up", "The API and a worker, in one command."),
    "demo": ("holdfast.cli.demo", "demo", "Three kills, and what the outside world says about them."),
    "run": ("holdfast.cli.run", "run", "Run one job here, or go on with one."),
    "worker": ("holdfast.cli.worker", "worker", "Drive the jobs of an application."),
    "workers": ("holdfast.cli.workers", "workers", "Who drives jobs now, and what each can do."),
    "agent": ("holdfast.cli.agent", "agent", "Agents that are configured: create, list, show."),
    "agents": (
        "holdfast.cli.agents",
        "agents",
        "Agents that live elsewhere: who is there, what each can do.",
    ),
    "work": (
        "holdfast.cli.work_items",
        "work",
        "Work for whoever has the capability: submit, list, show, cancel.",
    ),
    "chat": ("holdfast.cli.chat", "chat", "Talk to an agent."),
    "schedule": (
        "holdfast.cli.schedule",
        "schedule",
        "What begins by the clock: create, list, pause, resume, remove.",
    ),
    "queue": ("holdfast.cli.queue", "queue", "How much a queue takes before it says no."),
    "namespace": ("holdfast.cli.namespace", "namespace", "The walls between tenants: create, list."),
    "serve": ("holdfast.cli.serve", "serve", "Answer over HTTP: the API, for machines and for people."),
    "mcp": ("holdfast.cli.mcp", "mcp", "Serve agents, work and approvals to an MCP client, over stdio."),
    "key": ("holdfast.cli.api_key", "key", "Who may speak to a server: create, list, revoke."),
    "audit": ("holdfast.cli.audit", "audit", "Who did what, and whether the record of it holds."),
    "jobs": ("holdfast.cli.jobs", "jobs", "List jobs, or everything that waits for a person."),
    "job": ("holdfast.cli.jobs", "job", "One job: where it stands, what it waits for, how to go on."),
    "trace": ("holdfast.cli.trace", "trace", "A job's life as a timeline, with what recovery did and why."),
    "cancel": ("holdfast.cli.decisions", "cancel", "End a job."),
    "resume": ("holdfast.cli.decisions", "resume", "Let a job go on that is held for a person."),
    "signal": ("holdfast.cli.decisions", "signal", "Send a signal to a job."),
    "answer": ("holdfast.cli.decisions", "answer", "Answer what a job asks."),
    "reconcile": ("holdfast.cli.decisions", "reconcile", "Say what became of an uncertain call."),
    "approve": ("holdfast.cli.decisions", "approve", "Say yes to a call that waits for it."),
    "deny": ("holdfast.cli.decisions", "deny", "Say no to a call that waits for it."),
    "raise": ("holdfast.cli.decisions", "raise_", "Raise a budget, so that a job can go on."),
    "dead": ("holdfast.cli.dead_letters", "dead", "Dead letters: list, requeue, discard."),
    "replay": (
        "holdfast.cli.replay",
        "replay",
        "Run a finished job's code over its journal, without a live call.",
    ),
    "fork": ("holdfast.cli.replay", "fork", "A new job that shares another's past up to a step."),
    "export": ("holdfast.cli.export", "export", "Write a job's journal into a file, signed."),
    "export-key": ("holdfast.cli.export", "export_key", "Make the key that signs exports."),
    "verify": (
        "holdfast.cli.export",
        "verify",
        "Check one job's journal from its first event, or an exported file.",
    ),
    "stats": ("holdfast.cli.stats", "stats", "How many jobs, agents and work items there are."),
    "db": ("holdfast.cli.db", "db", "Look after the store: status, migrate, backup, restore, verify."),
    "payload-key": ("holdfast.cli.payload_key", "payload_key", "Make or add a key that encrypts payloads."),
    "doctor": ("holdfast.cli.doctor", "doctor", "Check this machine and the store, and say what holds."),
    "completion": ("holdfast.cli.completion", "completion", "Make the shell complete commands and options."),
}

_INTERNAL: Final = {"isolated": ("holdfast.cli.isolated", "isolated")}
"""Commands that Holdfast starts itself: no part of what people type, and in no list."""


class Lazy(click.Group):
    """A group that knows its commands' names and summaries, and imports one only to run it."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(_COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        found = _COMMANDS.get(cmd_name) or _INTERNAL.get(cmd_name)
        if found is None:
            return None
        module, name = found[:2]
        command: click.Command = getattr(importlib.import_module(module), name)
        return command

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """Names and summaries as they stand in the table: completing a word imports no command."""
        names = [
            CompletionItem(name, help=summary)
            for name, (_, _, summary) in _COMMANDS.items()
            if name.startswith(incomplete)
        ]
        return names + click.Command.shell_complete(self, ctx, incomplete)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, summary) for name, (_, _, summary) in _COMMANDS.items()])


@click.group(cls=Lazy, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="holdfast")
def holdfast() -> None:
    """Agents that outlive their process.

    Example: holdfast jobs --store sqlite:///holdfast.db
    """
