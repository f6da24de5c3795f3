"""`holdfast key`: who may speak to a server."""

from __future__ import annotations

import click

from holdfast.cli.open_store import existing
from holdfast.cli.options import by_option, json_option, store_option
from holdfast.cli.output import plain, table, to_json, wait_for
from holdfast.client.keys import create_key, revoke_key
from holdfast.model.access import ApiKey, Role, is_open
from holdfast.model.jobs import DEFAULT_NAMESPACE
from holdfast.model.time import parse_duration, to_iso
from holdfast.runtime import open_store
from holdfast.store.clock import SystemClock

namespace_option = click.option(
    "--namespace", default=DEFAULT_NAMESPACE, show_default=True, help="Where the key opens."
)


@click.group()
def key() -> None:
    """API keys: made, listed, revoked, in the store itself. A server that has any asks for one.

    Example: holdfast key create --role admin --name ada --why 'first key'
    """


@key.command()
@click.option(
    "--role",
    "roles",
    multiple=True,
    required=True,
    type=click.Choice([role.value for role in Role]),
    help="What it may do; several add up.",
)
@click.option("--name", required=True, help="Whose it is; shown in lists, journals and the audit log.")
@click.option("--why", required=True, help="What it is for; for the audit log.")
@click.option(
    "--expires-in", metavar="TIME", help="It opens nothing after that: 12h, 90d. Without it, it stays."
)
@click.option("--session", metavar="ID", help="The session that an agent's key is for.")
@click.option("--make-namespace", is_flag=True, help="Make the namespace, if there is none of this name.")
@namespace_option
@by_option
@store_option
@json_option
def create(
    roles: tuple[str, ...],
    name: str,
    why: str,
    expires_in: str | None,
    session: str | None,
    namespace: str,
    by: str,
    where: str,
    *,
    make_namespace: bool,
    as_json: bool,
) -> None:
    """Make a key. It is printed once, on stdout, and cannot be shown again.

    Example: holdfast key create --role operator --name ci --expires-in 90d --why 'nightly runs'
    """
    lifetime = None if expires_in is None else parse_duration(expires_in)

    async def work() -> tuple[ApiKey, str]:
        store = await open_store(where)
        try:
            if make_namespace:
                await store.namespaces.create(namespace)
            return await create_key(
                store,
                [Role(role) for role in roles],
                name=name,
                who=by,
                why=why,
                namespace=namespace,
                session_id=session,
                expires_at=None if lifetime is None else store.clock.wall_us() + lifetime,
            )
        finally:
            await store.close()

    made, text = wait_for(work())
    if as_json:
        click.echo(to_json({"key": text} | _told(made)))
        return
    click.echo(text)
    until = "" if made.expires_at is None else f", until {to_iso(made.expires_at)}"
    click.echo(f"{', '.join(made.roles)} in {plain(namespace)}{until}; it is not shown again", err=True)
    click.echo("  export HOLDFAST_API_KEY=…   holdfast key revoke " + made.key_id + " --why …", err=True)


@key.command("list")
@click.option("--namespace", default=None, help="Only keys of this one.")
@store_option
@json_option
def list_(namespace: str | None, where: str, *, as_json: bool) -> None:
    """List keys, revoked and expired ones too: whose they are, what they may do, when they were last used.

    Example: holdfast key list --json
    """

    async def look() -> list[ApiKey]:
        store = await existing(where)
        try:
            found: list[ApiKey] = []
            cursor: str | None = None
            while True:
                page = await store.keys.list(namespace=namespace, cursor=cursor)
                found += page.items
                cursor = page.next
                if cursor is None:
                    return found
        finally:
            await store.close()

    keys = wait_for(look())
    for one in keys if as_json else ():
        click.echo(to_json(_told(one)))
    if not keys:
        click.echo("no keys", err=True)
    elif not as_json:
        now = SystemClock().wall_us()
        rows = [
            (
                one.key_id,
                one.name,
                ", ".join(one.roles),
                one.namespace,
                "never" if one.last_used_at is None else to_iso(one.last_used_at),
                _state(one, now),
            )
            for one in keys
        ]
        table(("id", "name", "roles", "namespace", "last use", "state"), rows, as_json=False)


@key.command()
@click.argument("key_id", metavar="ID")
@click.option("--why", required=True, help="Why it is taken back; for the audit log.")
@by_option
@store_option
def revoke(key_id: str, why: str, by: str, where: str) -> None:
    """Take a key back. Servers that run know it within five seconds.

    Example: holdfast key revoke 7dq4m0x2c8k1n5vz --why 'it was in a log'
    """

    async def work() -> ApiKey:
        store = await existing(where)
        try:
            return await revoke_key(store, key_id, who=by, why=why)
        finally:
            await store.close()

    revoked = wait_for(work())
    assert revoked.revoked_at is not None
    click.echo(f"{plain(revoked.name)} opens nothing since {to_iso(revoked.revoked_at)}", err=True)


def _state(one: ApiKey, now: int) -> str:
    if one.revoked_at is not None:
        return f"revoked {to_iso(one.revoked_at)}"
    if one.expires_at is None:
        return "open"
    return f"{'until' if is_open(one, now) else 'expired'} {to_iso(one.expires_at)}"


def _told(one: ApiKey) -> dict[str, object]:
    """The key without what is kept of its secret."""
    return {name: getattr(one, name) for name in one.__struct_fields__ if name != "digest"}
