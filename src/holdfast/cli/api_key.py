"""`holdfast api-key`: create, list and revoke the API keys of a store."""

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
    "--namespace",
    default=DEFAULT_NAMESPACE,
    show_default=True,
    help="Namespace.",
)


@click.group()
def api_key() -> None:
    """Manage API keys. A server whose store has keys requires one; `payload-key` creates encryption keys.

    Example: holdfast api-key create --role admin --name ada --why 'first key'
    """


@api_key.command()
@click.option(
    "--role",
    "roles",
    multiple=True,
    required=True,
    type=click.Choice([role.value for role in Role]),
    help="What the key may do; may be repeated.",
)
@click.option("--name", required=True, help="Owner of the key; shown in lists, journals and the audit log.")
@click.option("--why", required=True, help="Purpose of the key; written to the audit log.")
@click.option("--expires-in", metavar="TIME", help="Lifetime: 12h, 90d.  [default: no expiry]")
@click.option("--session", metavar="ID", help="With --role agent: the one session that the key is for.")
@click.option("--make-namespace", is_flag=True, help="Create the namespace if it does not exist.")
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
    """Create a key. It is printed once, on stdout, and cannot be shown again.

    Example: holdfast api-key create --role operator --name ci --expires-in 90d --why 'nightly runs'
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

    key, text = wait_for(work())
    if as_json:
        click.echo(to_json({"key": text} | _told(key)))
        return
    click.echo(text)
    until = "" if key.expires_at is None else f", until {to_iso(key.expires_at)}"
    click.echo(f"{', '.join(key.roles)} in {plain(namespace)}{until}; this key is not shown again", err=True)
    click.echo("  export HOLDFAST_API_KEY=…   holdfast api-key revoke " + key.key_id + " --why …", err=True)


@api_key.command("list")
@click.option("--namespace", default=None, help="Only keys of this namespace.")
@store_option
@json_option
def list_(namespace: str | None, where: str, *, as_json: bool) -> None:
    """List keys, including revoked and expired ones: owner, roles, last use, state.

    Example: holdfast api-key list --json
    """

    async def look() -> list[ApiKey]:
        store = await existing(where)
        try:
            keys_found: list[ApiKey] = []
            cursor: str | None = None
            while True:
                page = await store.keys.list(namespace=namespace, cursor=cursor)
                keys_found += page.items
                cursor = page.next
                if cursor is None:
                    return keys_found
        finally:
            await store.close()

    keys = wait_for(look())
    for key in keys if as_json else ():
        click.echo(to_json(_told(key)))
    if not keys:
        click.echo(
            "no API keys. Create one: holdfast api-key create --role admin --name NAME --why …", err=True
        )
    elif not as_json:
        now = SystemClock().wall_us()
        rows = [
            (
                key.key_id,
                key.name,
                ", ".join(key.roles),
                key.namespace,
                "never" if key.last_used_at is None else to_iso(key.last_used_at),
                _state(key, now),
            )
            for key in keys
        ]
        table(("id", "name", "roles", "namespace", "last use", "state"), rows, as_json=False)


@api_key.command()
@click.argument("key_id", metavar="ID")
@click.option("--why", required=True, help="The reason; written to the audit log.")
@by_option
@store_option
def revoke(key_id: str, why: str, by: str, where: str) -> None:
    """Revoke a key. Running servers reject it within five seconds.

    Example: holdfast api-key revoke 7dq4m0x2c8k1n5vz --why 'it was in a log'
    """

    async def work() -> ApiKey:
        store = await existing(where)
        try:
            return await revoke_key(store, key_id, who=by, why=why)
        finally:
            await store.close()

    revoked = wait_for(work())
    assert revoked.revoked_at is not None
    click.echo(f"key of {plain(revoked.name)} revoked at {to_iso(revoked.revoked_at)}", err=True)


def _state(key: ApiKey, now: int) -> str:
    if key.revoked_at is not None:
        return f"revoked {to_iso(key.revoked_at)}"
    if key.expires_at is None:
        return "active"
    return f"{'active until' if is_open(key, now) else 'expired'} {to_iso(key.expires_at)}"


def _told(key: ApiKey) -> dict[str, object]:
    """The key without the digest of its secret."""
    return {name: getattr(key, name) for name in key.__struct_fields__ if name != "digest"}
