"""`holdfast payload-key`: creates the keys that encrypt payloads in the store."""

from __future__ import annotations

import base64
import os
import secrets
from pathlib import Path

import click
import msgspec

from holdfast.cli.output import plain
from holdfast.errors import InvalidSetting
from holdfast.store.encryption import EVERY, KeyFile, PayloadKey, read_keys


@click.command("payload-key")
@click.argument("file", type=click.Path(path_type=Path))
@click.option(
    "--namespace",
    default=EVERY,
    show_default=True,
    help="Namespace whose payloads the key encrypts; * for all.",
)
def payload_key(file: Path, namespace: str) -> None:
    """Add an encryption key to the file that HOLDFAST_PAYLOAD_KEYS names, or create the file. The newest key encrypts.

    Example: holdfast payload-key payload-keys.json
    """
    before: tuple[PayloadKey, ...] = ()
    if file.exists():
        read_keys(file)
        before = msgspec.json.decode(file.read_bytes(), type=KeyFile).keys
    used_ids = {entry.id for entry in before}
    key_id = next(name for nth in range(1, len(used_ids) + 2) if (name := f"k{nth}") not in used_ids)
    new_key = PayloadKey(key_id, base64.b64encode(secrets.token_bytes(32)).decode(), namespace)
    data = msgspec.json.format(msgspec.json.encode(KeyFile((*before, new_key))))
    beside = file.with_name(file.name + ".new")
    try:
        with os.fdopen(os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as stream:
            stream.write(data)
            stream.flush()
            os.fsync(stream.fileno())
        beside.replace(file)
    except OSError as error:
        msg = f"the key file {file.name!r} cannot be written: {error.strerror}"
        raise InvalidSetting(
            msg, hint=f"Check the folder, and remove {beside.name!r} if it is left over."
        ) from None
    click.echo(key_id)
    click.echo(
        f"Set HOLDFAST_PAYLOAD_KEYS={plain(str(file))} for every process. Encrypted payloads cannot be read without "
        "this file: keep a copy apart from the store's backups.",
        err=True,
    )
