"""Secrets by reference: code names one, the worker looks its value up when a call fires, and nothing stored holds it.

    @hf.tool(effect="idempotent", key_lifetime="24h")
    async def refund(order: str, *, key: hf.Key, token: hf.Secret = hf.secret("stripe")) -> Refund:
        return await pay.refund(order, idempotency_key=key, api_key=token.reveal())

    web = http_tools(allow=["api.example.com"], headers={"Authorization": f"Bearer {hf.secret('example')}"})

In arguments, configuration, prompts and journals there is `secret://stripe`. What is behind it comes from the
environment (HOLDFAST_SECRET_STRIPE), from a file of that name in the directory HOLDFAST_SECRETS_DIR, or from a source
of your own (`hf.use_secrets`).

A model cannot ask for a secret. A parameter that takes one is not in the schema that the model is told, and is not its
to give; and a reference in a text is looked up only where whoever wrote the program put it (headers, environments),
never in arguments. Otherwise a page that says "send secret://stripe to me" would be enough.

Every value that is known here is known to `model.redaction` as well: where it turns up again it is not written down.
"""

from __future__ import annotations

import os
import re
import types
import typing
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Final, Protocol

from holdfast.errors import InvalidSetting, Refused
from holdfast.model import redaction
from holdfast.model.limits import KIB

SCHEME: Final = "secret://"
PREFIX: Final = "HOLDFAST_SECRET_"
DIRECTORY: Final = "HOLDFAST_SECRETS_DIR"
FILE_BYTES_MAX: Final = 64 * KIB

_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,99}")
_REFERENCE: Final = re.compile(SCHEME + r"([A-Za-z0-9](?:[A-Za-z0-9_.-]{0,98}[A-Za-z0-9_])?)")
_CREDENTIAL: Final = re.compile(
    r"(?:.+_)?(?:API_KEY|APIKEY|SECRET|SECRET_KEY|ACCESS_KEY|TOKEN|PASSWORD|PGPASSWORD)", re.IGNORECASE
)
_CREDENTIAL_LENGTH_MIN: Final = 16


class Secret:
    """A reference to a secret. As text, in JSON and in a debugger it is `secret://name`; `reveal` gives the value."""

    __slots__ = ("name",)

    def __init__(self, name: str) -> None:
        if not _NAME.fullmatch(name):
            msg = "the name of a secret is 1 to 100 letters, digits, `_`, `-` and `.`"
            raise InvalidSetting(msg, hint='Say hf.secret("stripe"): the name, not the value.')
        self.name = name

    def reveal(self) -> str:
        """The value, looked up now. Call it where it is used, and keep it nowhere."""
        value = _look_up(self.name)
        if value is None:
            msg = f"there is no secret {self.name!r} on this worker"
            raise InvalidSetting(msg, hint=_where_to_put(self.name))
        redaction.register({_key(self.name): value})
        return value

    def __str__(self) -> str:
        return SCHEME + self.name

    __repr__ = __str__

    def __format__(self, spec: str) -> str:
        return format(str(self), spec)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Secret) and self.name == other.name

    def __hash__(self) -> int:
        return hash((Secret, self.name))


def secret(name: str) -> Secret:
    """A reference to the secret of this name. Nothing is looked up before a call fires."""
    return Secret(name)


def parse_reference(text: object) -> Secret:
    """The reference that a text is, from a journal or a caller."""
    if isinstance(text, Secret):
        return text
    if isinstance(text, str) and text.startswith(SCHEME):
        return Secret(text.removeprefix(SCHEME))
    msg = f"not a reference to a secret: it begins with {SCHEME}"
    raise ValueError(msg)


def takes_secret(hint: Any) -> bool:
    """Whether a parameter with this hint takes a secret, perhaps among other things."""
    if hint is Secret:
        return True
    if typing.get_origin(hint) in {typing.Union, types.UnionType, typing.Annotated}:
        return any(takes_secret(one) for one in typing.get_args(hint))
    return False


def resolve_references(configured: Mapping[str, str | Secret]) -> dict[str, str]:
    """Headers or an environment as a program's author wrote them, with values in place of references, for one call.

    Refused, if a secret is not there: nothing has been sent yet.
    """
    try:
        return {
            name: value.reveal() if isinstance(value, Secret) else _REFERENCE.sub(_revealed, value)
            for name, value in configured.items()
        }
    except InvalidSetting as error:
        raise Refused(str(error), hint=error.hint) from None


def _revealed(found: re.Match[str]) -> str:
    return Secret(found[1]).reveal()


# ── where values come from ────────────────────────────────────────────────────────────────────────


class Source(Protocol):
    """Somebody who knows secrets: a vault, a keyring. Asked whenever a call needs one, so be quick, or remember."""

    def find(self, name: str) -> str | None:
        """The value, or None: somebody else may have it."""
        ...

    def list_names(self) -> Iterable[str]:
        """Names whose values should be kept out of everything from the start; may be none."""
        ...


class Environment:
    """HOLDFAST_SECRET_NAME, in capitals, with `_` for `-` and `.`."""

    def find(self, name: str) -> str | None:
        return os.environ.get(PREFIX + _key(name).upper())

    def list_names(self) -> list[str]:
        return sorted(name.removeprefix(PREFIX).lower() for name in os.environ if name.startswith(PREFIX))


class Directory:
    """One file for each secret, as container platforms mount them. A line break at the end is not part of it."""

    def find(self, name: str) -> str | None:
        folder = os.environ.get(DIRECTORY)
        if not folder:
            return None
        try:
            with (Path(folder) / name).open(
                "rb"
            ) as file:  # names have no slashes, and do not begin with a dot
                data = file.read(FILE_BYTES_MAX + 1)
            if len(data) > FILE_BYTES_MAX:
                msg = f"the file of secret {name!r} has more than {FILE_BYTES_MAX:,} bytes"
                raise InvalidSetting(msg, hint="A secret is a key or a password; put files elsewhere.")
            return data.decode().removesuffix("\n").removesuffix("\r")
        except (OSError, UnicodeDecodeError):
            return None

    def list_names(self) -> list[str]:
        folder = os.environ.get(DIRECTORY)
        try:
            return (
                sorted(one.name for one in Path(folder).iterdir() if _NAME.fullmatch(one.name))
                if folder
                else []
            )
        except OSError:
            return []


_sources: list[Source] = [Environment(), Directory()]


def use_secrets(*sources: Source) -> None:
    """These are asked for secrets first, in this order, and the environment and the directory after them."""
    _sources[:] = [*sources, Environment(), Directory()]


def _look_up(name: str) -> str | None:
    return next((value for one in _sources if (value := one.find(name)) is not None), None)


def find_secret_values() -> list[tuple[str, str]]:
    """Everything that must not be written down, with its name: the secrets of all sources, and what the environment
    holds under names like X_API_KEY, which are credentials as well."""
    credentials = [
        (name.lower(), value)
        for name, value in sorted(os.environ.items())
        if _CREDENTIAL.fullmatch(name)
        and not name.startswith("HOLDFAST_")
        and len(value) >= _CREDENTIAL_LENGTH_MIN
    ]
    found = [
        (_key(name), value)
        for source in _sources
        for name in source.list_names()
        if (value := source.find(name)) is not None
    ]
    return [*found, *credentials]


def _key(name: str) -> str:
    """One spelling for a name: a value is called the same, whoever asked for it."""
    return name.lower().replace("-", "_").replace(".", "_")


def _where_to_put(name: str) -> str:
    return f"Set {PREFIX}{_key(name).upper()}, or put the file {name!r} into the directory {DIRECTORY} names."
