"""`holdfast`: commands are imported when they are used, so that `--help` is fast."""

from __future__ import annotations

import importlib
from typing import Final

import click
from click.shell_completion import CompletionItem

_COMMANDS: Final = {
    "init": ("holdfast.cli.init", "init", "Create a small project that runs at once."),
    "up": ("holdfast.cli.up", "up", "Start the API, the page and a worker on this machine."),
    "demo": ("holdfast.cli.demo", "demo", "Kill a worker three times and count what arrived."),
    "run": ("holdfast.cli.run", "run", "Run one job here, or continue one."),
    "worker": ("holdfast.cli.worker", "worker", "Run a worker: claim and execute jobs. Also: list, drain."),
    "agent": (
        "holdfast.cli.agent",
        "agent",
        "Agents: create, list, show; external agents: list and inspect.",
    ),
    "work": (
        "holdfast.cli.work_items",
        "work",
        "Work items, routed by capability: submit, list, show, cancel.",
    ),
    "chat": ("holdfast.cli.chat", "chat", "Talk to an agent."),
    "schedule": (
        "holdfast.cli.schedule",
        "schedule",
        "Manage schedules (cron): create, list, pause, resume, remove.",
    ),
    "queue": ("holdfast.cli.queue", "queue", "Show and set queue limits."),
    "namespace": ("holdfast.cli.namespace", "namespace", "Manage namespaces (tenants): create, list."),
    "serve": ("holdfast.cli.serve", "serve", "Serve the HTTP API and the page."),
    "mcp": ("holdfast.cli.mcp", "mcp", "Serve Holdfast to an MCP client, over stdio."),
    "api-key": ("holdfast.cli.api_key", "api_key", "Manage API keys: create, list, revoke."),
    "audit": ("holdfast.cli.audit", "audit", "Show the audit log and verify its hash chain."),
    "jobs": ("holdfast.cli.jobs", "jobs", "List jobs, or (--person) everything that needs a person."),
    "job": ("holdfast.cli.jobs", "job", "Show one job: status, what it waits for, commands to continue."),
    "trace": ("holdfast.cli.trace", "trace", "Show a job's timeline: calls, attempts, recovery."),
    "cancel": ("holdfast.cli.decisions", "cancel", "Cancel a job."),
    "resume": ("holdfast.cli.decisions", "resume", "Continue a job that is held for a person."),
    "signal": ("holdfast.cli.decisions", "signal", "Send a signal to a job."),
    "answer": ("holdfast.cli.decisions", "answer", "Answer a question of a job."),
    "reconcile": ("holdfast.cli.decisions", "reconcile", "Settle a call whose outcome is unknown."),
    "approve": ("holdfast.cli.decisions", "approve", "Approve a call that waits for approval."),
    "deny": ("holdfast.cli.decisions", "deny", "Deny a call that waits for approval."),
    "raise": ("holdfast.cli.decisions", "raise_", "Raise the budget of a job that has used it up."),
    "dead": ("holdfast.cli.dead_letters", "dead", "Dead-letter queue: list, requeue, discard."),
    "replay": (
        "holdfast.cli.replay",
        "replay",
        "Replay a finished job's journal through the code: no live calls.",
    ),
    "fork": ("holdfast.cli.replay", "fork", "Fork a job: a new job that shares its history up to a step."),
    "export": ("holdfast.cli.export", "export", "Export a job's journal to a file (signed)."),
    "export-key": ("holdfast.cli.export", "export_key", "Create the key that signs exports."),
    "verify": (
        "holdfast.cli.export",
        "verify",
        "Verify the journal of one job, or an exported file.",
    ),
    "stats": ("holdfast.cli.stats", "stats", "Count jobs, agents and work items."),
    "db": ("holdfast.cli.db", "db", "Manage the store: status, migrate, backup, restore, verify, prune."),
    "payload-key": ("holdfast.cli.payload_key", "payload_key", "Create a key that encrypts payloads."),
    "doctor": ("holdfast.cli.doctor", "doctor", "Check this machine and the store."),
    "completion": ("holdfast.cli.completion", "completion", "Print a shell completion script."),
}

_SECTIONS: Final = {
    "Start": ("init", "demo", "up", "run", "worker", "serve", "chat", "mcp"),
    "Look at jobs": ("jobs", "job", "trace", "stats", "replay", "verify", "export"),
    "Decide": (
        *("cancel", "resume", "signal", "answer", "reconcile"),
        *("approve", "deny", "raise", "dead", "fork"),
    ),
    "Manage": ("agent", "work", "schedule", "queue", "namespace"),
    "Operate": ("db", "doctor", "audit", "api-key", "payload-key", "export-key", "completion"),
}
"""The sections of `--help`."""

_RENAMED: Final = {"key": "api-key", "keys": "api-key"}
"""Names that a person may type for a command with another name."""

_INTERNAL: Final = {"isolated": ("holdfast.cli.isolated", "run_isolated")}
"""Internal commands: Holdfast starts them itself; no help lists them."""


class Lazy(click.Group):
    """Lazy command group: knows names and summaries, and imports a command only to run it."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(_COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        entry = _COMMANDS.get(cmd_name) or _INTERNAL.get(cmd_name)
        if entry is None:
            return None
        module, name = entry[:2]
        command: click.Command = getattr(importlib.import_module(module), name)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Names the commands that are spelled similarly to an unknown one."""
        if args and self.get_command(ctx, args[0]) is None:
            import difflib  # help does not need it

            near = difflib.get_close_matches(args[0], [*_COMMANDS, *_RENAMED], n=3, cutoff=0.6)
            names = dict.fromkeys(_RENAMED.get(name, name) for name in near)
            suggestion = f" Did you mean: {', '.join(names)}?" if names else ""
            ctx.fail(f"No such command {args[0]!r}.{suggestion}")
        return super().resolve_command(ctx, args)

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """Names and summaries from the table: completion imports no command."""
        names = [
            CompletionItem(name, help=summary)
            for name, (_, _, summary) in _COMMANDS.items()
            if name.startswith(incomplete)
        ]
        return names + click.Command.shell_complete(self, ctx, incomplete)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        for title, names in _SECTIONS.items():
            with formatter.section(title):
                formatter.write_dl([(name, _COMMANDS[name][2]) for name in names])


@click.group(cls=Lazy, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="holdfast")
def holdfast() -> None:
    """Holdfast: a durable runtime for AI agents.

    A job survives the death of its worker: another worker continues it, and no finished step is repeated.

    Example: holdfast jobs --store sqlite:///holdfast.db
    """
