"""The policy file: what is said about tools and agents over what their code declares.

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
    retry = { attempts = 5, initial = "1s", maximum = "30s" }

    [tools."shell"]
    deny = true

    [agents."report*"]
    retry = { attempts = 10 }
    timeout = "2h"

    policy = hf.Policy.read("tools.toml")                # for tools that nobody here can decorate: hf.mcp(policy=…)
    app = hf.App(policy="tools.toml")                    # for those of an application; or HOLDFAST_POLICY=tools.toml

With `unsafe = "approve"` (or `"deny"`) on the first line, an unsafe tool waits for a person (or is refused) unless its
rule says otherwise: `approve = false`. A rule is the owner's word; no model can change it or talk its way past it.

A rule is found by the name of the tool or agent; `*`, `?` and `[…]` stand for what they stand for in a shell. The
first rule in the file that fits is the one that counts. What it does not say stays as it was. The class names of other
systems are understood: `external` is `unsafe`, `local` is `verifiable`, `memory` is `idempotent`. Of a retry policy
it says what it names; which errors are retried stays the code's word.

Nothing here is guessed: a tool that no rule names, and whose own word is not known, is `unsafe`.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Mapping
from fnmatch import fnmatchcase
from functools import partial
from os import PathLike, fspath
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import msgspec

from holdfast.agents.tools import Tool, override_terms
from holdfast.engine.durable_call import CallPolicy
from holdfast.errors import Denied, HoldfastError, InvalidSetting
from holdfast.model.job_deadline import parse_timeout
from holdfast.model.retry import JOB_RETRY, Retry
from holdfast.model.side_effects import Effect, parse_effect
from holdfast.model.time import parse_duration

if TYPE_CHECKING:
    from holdfast.agents.app_registry import AppRegistry

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
    retry: Mapping[str, Any] | None = None

    @property
    def honours_key(self) -> bool:
        return self.key_argument is not None or self.key_meta is not None

    def terms(self, before: CallPolicy) -> CallPolicy:
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
        if self.longest_call_us is not None:
            said["reads_within_us"] = self.longest_call_us
        if self.retry is not None:
            said["retry"] = msgspec.structs.replace(before.retry, **self.retry)
        if self.deny:
            said["approve"] = _never
        elif self.approve is not None:
            said["approve"] = _always if self.approve else None
        return msgspec.structs.replace(before, **said)


class AgentRule(msgspec.Struct, frozen=True, kw_only=True):
    """What the file says about the agents that a pattern fits."""

    pattern: str
    retry: Mapping[str, Any] | None = None
    timeout_us: int | None = None


class Policy:
    """Rules about tools and agents, by name."""

    def __init__(
        self, rules: Iterable[Rule] = (), *, unsafe: str = ALLOW, agent_rules: Iterable[AgentRule] = ()
    ) -> None:
        if unsafe not in _UNSAFE:
            msg = f"unsafe = {unsafe!r} is not known"
            raise InvalidSetting(msg, hint=f"Say one of {', '.join(map(repr, _UNSAFE))}.")
        self.rules = tuple(rules)
        self.agent_rules = tuple(agent_rules)
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
        if unknown := document.keys() - {"tools", "agents", "unsafe"}:
            msg = f"{where} has {_listed(unknown)} beside its tools and agents"
            raise InvalidSetting(
                msg, hint='Everything but `unsafe` stands below [tools."…"] or [agents."…"].'
            )
        for kind in ("tools", "agents"):
            if not isinstance(document.get(kind, {}), dict):
                msg = f"{where}: {kind} is no table"
                raise InvalidSetting(msg, hint=f'Write one table for each pattern: [{kind}."mail.*"].')
        rules = [_rule(where, pattern, said) for pattern, said in document.get("tools", {}).items()]
        agents = [_agent_rule(where, pattern, said) for pattern, said in document.get("agents", {}).items()]
        try:
            return cls(rules, unsafe=str(document.get("unsafe", ALLOW)), agent_rules=agents)
        except InvalidSetting as error:
            raise InvalidSetting(f"{where}: {error}", hint=error.hint) from None

    def find_rule(self, name: str) -> Rule | None:
        """The first rule whose pattern fits the name."""
        return next((rule for rule in self.rules if fnmatchcase(name, rule.pattern)), None)

    def find_agent_rule(self, name: str) -> AgentRule | None:
        """The first rule about agents whose pattern fits the name."""
        return next((rule for rule in self.agent_rules if fnmatchcase(name, rule.pattern)), None)

    def apply(self, catalogue: AppRegistry) -> None:
        """Tools and agents of an application are on the policy's terms from now on."""
        for tool in catalogue.tools.values():
            override_terms(tool, partial(self._change, self.find_rule(tool.name)))
        agents: dict[str, Any] = {**catalogue.agents, **catalogue.sessions}
        for name, agent in agents.items():
            declared, rule = getattr(agent, "declared_retry", None), self.find_agent_rule(name)
            agent.retry = declared
            agent.timeout_us = getattr(agent, "declared_timeout_us", None)
            if rule is not None and rule.retry is not None:
                agent.retry = msgspec.structs.replace(declared or JOB_RETRY, **rule.retry)
            if rule is not None and rule.timeout_us is not None:
                agent.timeout_us = rule.timeout_us

    def _change(self, rule: Rule | None, terms: CallPolicy) -> CallPolicy:
        return self.apply_rule(rule, terms if rule is None else rule.terms(terms))

    def over(self, tools: Iterable[Tool[..., Any]]) -> list[Tool[..., Any]]:
        """The same tools, on the terms that the policy sets."""
        ruled = []
        for tool in tools:
            terms = self._change(self.find_rule(tool.name), tool.terms)
            ruled.append(tool if terms is tool.terms else tool.with_terms(terms))
        return ruled

    def apply_rule(self, rule: Rule | None, terms: CallPolicy) -> CallPolicy:
        """The terms of a tool that this rule fits, with what holds for unsafe ones of which it says nothing."""
        said = rule is not None and (rule.approve is not None or rule.deny)
        if self.unsafe == ALLOW or said or terms.effect is not Effect.UNSAFE or terms.approve is not None:
            return terms
        return msgspec.structs.replace(terms, approve=_UNSAFE[self.unsafe])

    def __repr__(self) -> str:
        return f"<policy of {len(self.rules) + len(self.agent_rules)} rules>"


def _rule(where: str, pattern: str, said: Any) -> Rule:
    place = f"{where}: tools.{pattern!r}"
    rule = Rule(pattern=pattern, **_read_settings(place, "tools", pattern, said, _SETTINGS))
    if rule.key_lifetime_us is not None and rule.effect not in {None, Effect.IDEMPOTENT}:
        msg = f"{place}: a key_lifetime for a class that sends no key again"
        raise InvalidSetting(msg, hint='Leave it out, or say class = "idempotent".')
    return rule


def _agent_rule(where: str, pattern: str, said: Any) -> AgentRule:
    read = _read_settings(f"{where}: agents.{pattern!r}", "agents", pattern, said, _AGENT_SETTINGS)
    return AgentRule(pattern=pattern, **read)


def _read_settings(
    place: str, kind_of_rule: str, pattern: str, said: Any, settings: Mapping[str, tuple[str, Any]]
) -> dict[str, Any]:
    if not isinstance(said, Mapping):
        msg = f"{place} is no table"
        raise InvalidSetting(
            msg, hint=f'Write [{kind_of_rule}."{pattern}"], and its settings on the lines below.'
        )
    if unknown := said.keys() - settings.keys():
        msg = f"{place} has no setting {_listed(unknown)}"
        raise InvalidSetting(msg, hint=f"There are {', '.join(settings)}.")
    read = {}
    for name, value in said.items():
        field, kind = settings[name]
        # A duration may be a number of seconds, and True is no number here.
        if not isinstance(value, kind) or (isinstance(value, bool) and kind is not bool):
            msg = f"{place}: {name} = {value!r} is of the wrong type"
            raise InvalidSetting(msg, hint=_HINTS.get(name, "Write it as text, in quotes."))
        try:
            read[field] = _READ.get(field, _as_it_is)(value)
        except HoldfastError as error:
            msg = f"{place}: {name}: {error}"
            raise InvalidSetting(msg, hint=error.hint) from None
    return read


def _parse_retry(said: Mapping[str, Any]) -> dict[str, Any]:
    """The numbers of a retry policy, as far as they are said."""
    if unknown := said.keys() - _RETRY.keys():
        msg = f"there is no {_listed(unknown)}"
        raise InvalidSetting(msg, hint=f"There are {', '.join(_RETRY)}; errors are named in code.")
    for name, value in said.items():
        if not isinstance(value, _RETRY[name]) or isinstance(value, bool):
            msg = f"{name} = {value!r} is of the wrong type"
            raise InvalidSetting(msg, hint=_RETRY_HINT)
    Retry(**said)
    return dict(said)


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
    "retry": ("retry", Mapping),
}
"""What a rule may say, and the field and type it is read as."""

_AGENT_SETTINGS: Final[dict[str, tuple[str, Any]]] = {
    "retry": ("retry", Mapping),
    "timeout": ("timeout_us", _TIME),
}
_RETRY: Final[dict[str, Any]] = {
    "attempts": int,
    "initial": _TIME,
    "maximum": _TIME,
    "multiplier": (int, float),
    "jitter": (int, float),
}
_RETRY_HINT: Final = (
    'Write it like this: retry = { attempts = 5, initial = "1s", maximum = "30s", jitter = 0.25 }.'
)

_READ: Final[dict[str, Any]] = {
    "effect": parse_effect,
    "key_lifetime_us": parse_duration,
    "approval_lifetime_us": parse_duration,
    "longest_call_us": parse_duration,
    "receiver_delay_us": parse_duration,
    "retry": _parse_retry,
    "timeout_us": parse_timeout,
}
_HINTS: Final = {
    "approve": "Write true or false, without quotes.",
    "deny": "Write true or false, without quotes.",
    "retry": _RETRY_HINT,
    **dict.fromkeys(
        ("key_lifetime", "approval_lifetime", "timeout", "receiver_delay"),
        'Write "90s", "24h" or a number of seconds.',
    ),
}
