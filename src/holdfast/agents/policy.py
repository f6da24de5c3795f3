"""The policy file: what is said about tools that nobody here can decorate.

    # tools.toml
    [tools."github.create_*"]
    class = "unsafe"
    approve = true

    [tools."mail.send"]
    class = "idempotent"
    key_argument = "idempotency_key"     # where the server takes the key
    key_lifetime = "24h"                 # how long it remembers it

    [tools."*.search*"]
    class = "read_only"
    timeout = "10s"

    [tools."shell"]
    deny = true

    policy = hf.Policy.read("tools.toml")

With `unsafe = "approve"` (or `"deny"`) on the first line, an unsafe tool waits for a person (or is refused) unless its
rule says otherwise: `approve = false`. A rule is the owner's word; no model can change it or talk its way past it.

A rule is found by the tool's name; `*`, `?` and `[…]` stand for what they stand for in a shell. The first rule in the
file that fits is the one that counts. What it does not say stays as it was. The class names of other systems are
understood: `external` is `unsafe`, `local` is `verifiable`, `memory` is `idempotent`.

Nothing here is guessed: a tool that no rule names, and whose own word is not known, is `unsafe`.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Mapping
from fnmatch import fnmatchcase
from os import PathLike, fspath
from pathlib import Path
from typing import Any, Final

import msgspec

from holdfast.agents.tools import Tool
from holdfast.engine.asked import Terms
from holdfast.errors import Denied, HoldfastError, InvalidSetting
from holdfast.model.effects import Effect, parse_effect
from holdfast.model.instants import parse_duration

ALLOW: Final = "allow"


class Rule(msgspec.Struct, frozen=True, kw_only=True):
    """What the file says about the tools that a pattern fits.

    `honours_key`: the receiver takes a key, in an argument or in what goes along with the call.
    """

    pattern: str
    effect: Effect | None = None
    key_lifetime_us: int | None = None
    key_argument: str | None = None
    key_meta: str | None = None
    approve: bool | None = None
    deny: bool = False
    approval_lifetime_us: int | None = None
    longest_call_us: int | None = None
    receiver_delay_us: int | None = None

    @property
    def honours_key(self) -> bool:
        return self.key_argument is not None or self.key_meta is not None

    def terms(self, before: Terms) -> Terms:
        """The terms of a tool, changed as far as the rule says something."""
        said: dict[str, Any] = {
            name: value
            for name in (
                "effect",
                "key_lifetime_us",
                "approval_lifetime_us",
                "longest_call_us",
                "receiver_delay_us",
            )
            if (value := getattr(self, name)) is not None
        }
        if self.deny:
            said["approve"] = _never
        elif self.approve is not None:
            said["approve"] = _always if self.approve else None
        return msgspec.structs.replace(before, **said)


class Policy:
    """Rules about tools, by name."""

    def __init__(self, rules: Iterable[Rule] = (), *, unsafe: str = ALLOW) -> None:
        if unsafe not in _UNSAFE:
            msg = f"unsafe = {unsafe!r} is not known"
            raise InvalidSetting(msg, hint=f"Say one of {', '.join(map(repr, _UNSAFE))}.")
        self.rules = tuple(rules)
        self.unsafe = unsafe

    @classmethod
    def read(cls, path: str | PathLike[str]) -> Policy:
        """The policy in this file; or an error that says what is wrong in it, and where."""
        name = fspath(path)
        try:
            text = Path(path).read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            msg = f"the policy file {name} cannot be read: {error}"
            raise InvalidSetting(
                msg, hint="Check its name and its permissions; it is TOML in UTF-8."
            ) from None
        return cls.parse(text, where=name)

    @classmethod
    def parse(cls, text: str, *, where: str = "the policy") -> Policy:
        """The policy in this text."""
        try:
            document = tomllib.loads(text)
        except tomllib.TOMLDecodeError as error:
            msg = f"{where} is no TOML: {error}"
            raise InvalidSetting(
                msg, hint='A rule looks like this: [tools."mail.*"] and class = "unsafe".'
            ) from None
        if unknown := document.keys() - {"tools", "unsafe"}:
            msg = f"{where} has {_listed(unknown)} beside its tools"
            raise InvalidSetting(msg, hint='Everything but `unsafe` stands below [tools."…"].')
        tools = document.get("tools", {})
        if not isinstance(tools, dict):
            msg = f"{where}: tools is no table"
            raise InvalidSetting(msg, hint='Write one table for each pattern: [tools."mail.*"].')
        rules = [_rule(where, pattern, said) for pattern, said in tools.items()]
        try:
            return cls(rules, unsafe=str(document.get("unsafe", ALLOW)))
        except InvalidSetting as error:
            raise InvalidSetting(f"{where}: {error}", hint=error.hint) from None

    def find_rule(self, name: str) -> Rule | None:
        """The first rule whose pattern fits the name."""
        return next((rule for rule in self.rules if fnmatchcase(name, rule.pattern)), None)

    def over(self, tools: Iterable[Tool[..., Any]]) -> list[Tool[..., Any]]:
        """The same tools, on the terms that the policy sets."""
        ruled = []
        for tool in tools:
            rule = self.find_rule(tool.name)
            terms = self.guarded(rule, tool.terms if rule is None else rule.terms(tool.terms))
            ruled.append(tool if terms is tool.terms else tool.with_terms(terms))
        return ruled

    def guarded(self, rule: Rule | None, terms: Terms) -> Terms:
        """The terms of a tool that this rule fits, with what holds for unsafe ones of which it says nothing."""
        said = rule is not None and (rule.approve is not None or rule.deny)
        if self.unsafe == ALLOW or said or terms.effect is not Effect.UNSAFE or terms.approve is not None:
            return terms
        return msgspec.structs.replace(terms, approve=_UNSAFE[self.unsafe])

    def __repr__(self) -> str:
        return f"<policy of {len(self.rules)} rules>"


def _rule(where: str, pattern: str, said: Any) -> Rule:
    place = f"{where}: tools.{pattern!r}"
    if not isinstance(said, Mapping):
        msg = f"{place} is no table"
        raise InvalidSetting(msg, hint=f'Write [tools."{pattern}"], and its settings on the lines below.')
    if unknown := said.keys() - _SETTINGS.keys():
        msg = f"{place} has no setting {_listed(unknown)}"
        raise InvalidSetting(msg, hint=f"There are {', '.join(_SETTINGS)}.")
    read = {}
    for name, value in said.items():
        field, kind = _SETTINGS[name]
        # A duration may be a number of seconds, and True is no number here.
        if not isinstance(value, kind) or (isinstance(value, bool) and kind is not bool):
            msg = f"{place}: {name} = {value!r} is of the wrong type"
            raise InvalidSetting(msg, hint=_HINTS.get(name, "Write it as text, in quotes."))
        try:
            read[field] = _READ.get(name, _as_it_is)(value)
        except HoldfastError as error:
            msg = f"{place}: {name}: {error}"
            raise InvalidSetting(msg, hint=error.hint) from None
    rule = Rule(pattern=pattern, **read)
    if rule.key_lifetime_us is not None and rule.effect not in {None, Effect.IDEMPOTENT}:
        msg = f"{place}: a key_lifetime for a class that sends no key again"
        raise InvalidSetting(msg, hint='Leave it out, or say class = "idempotent".')
    return rule


def _as_it_is(value: Any) -> Any:
    return value


def _always(_args: Any) -> bool:
    return True


def _never(_args: Any) -> bool:
    msg = "the policy does not allow this tool"
    raise Denied(msg, by="policy")


_UNSAFE: Final[dict[str, Any]] = {ALLOW: None, "approve": _always, "deny": _never}
"""What is done with unsafe tools of which no rule says anything."""


def _listed(names: Iterable[str]) -> str:
    return ", ".join(map(repr, sorted(names)))


_TIME: Final = (str, int, float)
_SETTINGS: Final[dict[str, tuple[str, Any]]] = {
    "class": ("effect", str),
    "key_lifetime": ("key_lifetime_us", _TIME),
    "key_argument": ("key_argument", str),
    "key_meta": ("key_meta", str),
    "approve": ("approve", bool),
    "deny": ("deny", bool),
    "approval_lifetime": ("approval_lifetime_us", _TIME),
    "timeout": ("longest_call_us", _TIME),
    "receiver_delay": ("receiver_delay_us", _TIME),
}
"""What a rule may say, and the field and type it is read as."""

_READ: Final[dict[str, Any]] = {
    "class": parse_effect,
    "key_lifetime": parse_duration,
    "approval_lifetime": parse_duration,
    "timeout": parse_duration,
    "receiver_delay": parse_duration,
}
_HINTS: Final = {
    "approve": "Write true or false, without quotes.",
    "deny": "Write true or false, without quotes.",
    **dict.fromkeys(
        ("key_lifetime", "approval_lifetime", "timeout", "receiver_delay"),
        'Write "90s", "24h" or a number of seconds.',
    ),
}
