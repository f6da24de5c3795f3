"""Redaction: what must never be written down is taken out where values become bytes, before anything is digested.

`canonical.encode` is the one way from a value to bytes, and a journal, its digests and what an agent's code goes on
with are all made of those bytes. So a secret is replaced there: the digest of a call is the digest of what is stored of
it, a replay finds the call again, and code is handed the same text the first time and every time after. Names (ids,
keys) are not replaced, because a changed name is another name; `check_name` refuses one that holds a secret.

Three rules:

    values    secrets that this process knows by name, wherever they stand in a text      [redacted:stripe]
    shapes    what looks like a token, a private key, a password in an address            [redacted:aws-key]
    fields    texts under a sensitive name: headers always, any other field if asked for  [redacted:authorization]

The answer is almost always "nothing here", and is found by looking for a few short needles in the bytes. Only what has
one is looked at closely, and only what then must change is walked through.

The rules are the process's own, like its environment: what one application of a process must not write, no other may.
`use` sets them, once, when a store is opened; everything else here is plain functions of their arguments.
"""

from __future__ import annotations

import functools
import json
import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

VALUE_LENGTH_MIN: Final = 8
"""Shorter secrets stand in too many innocent texts by chance. They are used, and not looked for."""

_ANYWHERE_LENGTH_MIN: Final = 16
"""From here on a secret is found in the middle of a word as well: no digest or id of ours holds it by chance."""

HEADERS: Final = frozenset(
    {
        "authorization",
        "proxy_authorization",
        "cookie",
        "set_cookie",
        "x_api_key",
        "api_key",
        "x_auth_token",
        "x_amz_security_token",
        "x_goog_api_key",
    }
)
"""Headers whose value is a credential. Written as `_plain_name` gives them."""

FIELDS: Final = HEADERS | frozenset(
    {
        "password",
        "passwd",
        "passphrase",
        "secret",
        "client_secret",
        "apikey",
        "access_token",
        "refresh_token",
        "id_token",
        "auth_token",
        "private_key",
        "secret_key",
        "secret_access_key",
        "credentials",
    }
)
"""Fields whose text is a secret in most people's data; only looked at if asked for, since they are sometimes not."""

_BEFORE: Final = r"(?<![A-Za-z0-9_-])"


class Shape:
    """One kind of token: what it looks like, and what text must be there for it to be worth a look. Patterns are made
    ready when that text is first there: it seldom is."""

    def __init__(self, label: str, needles: tuple[str, ...], pattern: str, *, whole: bool = True) -> None:
        self.label = label
        self.needles = needles
        self.seen = tuple(needle.encode() for needle in needles)
        self._looks = pattern
        self._whole = whole

    @functools.cached_property
    def pattern(self) -> re.Pattern[str]:
        return re.compile((_BEFORE if self._whole else "") + self._looks)

    @functools.cached_property
    def wide(self) -> re.Pattern[bytes]:
        """In JSON a line break is written with a letter, so in bytes nothing is asked of what stands before."""
        return re.compile(self._looks.encode())


SHAPES: Final = (
    Shape("api-key", ("sk-",), r"sk-[A-Za-z0-9_-]{20,}"),
    Shape("stripe-key", ("k_live_", "k_test_"), r"[sr]k_(?:live|test)_[A-Za-z0-9]{16,}"),
    Shape("github-token", ("ghp_", "gho_", "ghu_", "ghs_", "ghr_"), r"gh[pousr]_[A-Za-z0-9]{20,}"),
    Shape("github-token", ("github_pat_",), r"github_pat_[A-Za-z0-9_]{20,}"),
    Shape("gitlab-token", ("glpat-",), r"glpat-[A-Za-z0-9_-]{20,}"),
    Shape("slack-token", ("xox",), r"xox[abeoprs]-[A-Za-z0-9-]{10,}"),
    Shape("aws-key", ("AKIA", "ASIA"), r"(?:AKIA|ASIA)[0-9A-Z]{16}(?![0-9A-Za-z])"),
    Shape("google-key", ("AIza",), r"AIza[0-9A-Za-z_-]{35}"),
    Shape("npm-token", ("npm_",), r"npm_[A-Za-z0-9]{36}"),
    Shape(
        "hugging-face-token", ("hf_",), r"hf_(?=[a-z0-9]*[A-Z])[A-Za-z0-9]{30,}"
    ),  # a call's key has no capitals
    Shape("holdfast-key", ("hf",), r"hf[a-z]{0,3}[._][A-Za-z0-9-]{2,40}[._][A-Za-z0-9_-]{32,}"),
    Shape("jwt", (".eyJ",), r"eyJ[A-Za-z0-9_-]{8,}\.eyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]*"),
    Shape(
        "private-key",
        ("PRIVATE KEY-----",),
        r"(?s)-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY-----.*?(?:-----END [A-Z0-9 ]{0,40}PRIVATE KEY-----|\Z)",
        whole=False,
    ),
    Shape(
        "bearer", ("earer ",), r"(?<=[Bb]earer )(?=[A-Za-z._~+/-]*[0-9])[A-Za-z0-9._~+/-]{16,}=*", whole=False
    ),
    Shape("basic", ("uthorization: ",), r"(?<=uthorization: [Bb]asic )[A-Za-z0-9+/]{8,}={0,2}", whole=False),
    Shape("password", ("://",), r"(?<=://)[^\s/:@\"'\[\]]{0,80}:[^\s/@\"'\[\]]{3,200}(?=@)", whole=False),
)


_DASH: Final = re.compile(r"-(?:(?<=sk-)|(?<=xox.-)|(?<=glpat-)|(?<=PRIVATE KEY-))").search
_LINE: Final = re.compile(
    r"_(?:(?<=gh[pousr]_)|(?<=k_(?:live|test)_)|(?<=_pat_)|(?<=npm_)|(?<=hf_)|(?<=hf._)|(?<=hf.._)|(?<=hf..._))"
).search
_DOT: Final = re.compile(r"\.(?:eyJ|(?<=hf\.)|(?<=hf.\.)|(?<=hf..\.)|(?<=hf...\.))").search
_CAPITAL: Final = re.compile("A(?:KIA|SIA|Iza)").search
"""Every shape has a character of its own in a known place, and a search for one character flies over the rest."""


class Redactor:
    """The rules, made ready. `values` are secrets by name; `fields` and `headers` are as `_plain_name` writes them."""

    def __init__(
        self,
        values: Mapping[str, str] | Iterable[tuple[str, str]] = (),
        *,
        shapes: Iterable[Shape] = SHAPES,
        fields: frozenset[str] = frozenset(),
        headers: frozenset[str] = HEADERS,
    ) -> None:
        named = values.items() if isinstance(values, Mapping) else values
        self.values = {value: name for name, value in reversed(list(named))}
        """Names by value: a secret that was changed has an old value too, and a value the first name it was given."""
        self.shapes = tuple(shapes)
        self.fields = fields
        self.headers = headers
        self._known = _known(self.values)
        known = [needle for text, _, _ in self._known for needle in _in_bytes(text)]
        self._always = tuple(dict.fromkeys([*known, *([b'eaders":'] if headers else [])]))
        self._needles = tuple(dict.fromkeys(known))
        self._shaped = bool(self.shapes or headers)
        self._fielded = tuple({name.rpartition("_")[2].encode() for name in fields})
        self.looks_for_shapes_only = not self._needles and not self._fielded
        """Whether it knows no secret by its value, and looks at no field by its name."""
        self.plain_names: set[str] = set()
        """Names, without the number behind them, in which nothing was found."""

    def suspects(self, data: bytes) -> bool:
        """Whether these bytes may hold something that must not be written. False is certain."""
        text = data.decode("latin-1")  # to begin a search in bytes takes longer than the search in a text
        if self._shaped and (
            ("-" in text and _DASH(text) is not None)
            or ("_" in text and _LINE(text) is not None)
            or ("." in text and _DOT(text) is not None)
            or ("A" in text and _CAPITAL(text) is not None)
            or ("@" in text and "://" in text)
            or 'eaders":' in text
            or "earer " in text
            or "uthorization: " in text
        ):
            return True
        for needle in self._needles:
            if needle in data:
                return True
        return bool(self._fielded) and any(needle in data.lower() for needle in self._fielded)

    def is_needed(self, data: bytes) -> bool:
        """Whether bytes under suspicion are worth a walk: a shape may be whole here, a value or a field stands here."""
        if any(needle in data for needle in self._always):
            return True
        for shape in self.shapes:
            if any(needle in data for needle in shape.seen) and shape.wide.search(data):
                return True
        return bool(self._fielded)

    def text(self, text: str) -> str:
        """The text without its secrets."""
        for known, pattern, mark in self._known:
            if known in text:
                text = pattern.sub(mark, text)
        for shape in self.shapes:
            for needle in shape.needles:
                if needle in text:
                    text = shape.pattern.sub(f"[redacted:{shape.label}]", text)
                    break
        return text

    def value(self, value: Any) -> Any:
        """The JSON value without its secrets; itself, if there are none. Keys are texts like any other."""
        return self._value(value, "")

    def _value(self, value: Any, under: str) -> Any:
        kind = type(value)
        if isinstance(value, str):
            return self._named(value, under) if under else self._same(value)
        if kind is dict:
            return self._dict(value, under)
        if kind is list or kind is tuple:
            if under == _IN_HEADERS and len(value) == 2 and isinstance(value[0], str):  # one header as a pair
                return [self._same(value[0]), self._value(value[1], self._field(value[0], within=under))]
            changed = [self._value(item, under) for item in value]
            return changed if any(map(_differ, changed, value)) else value
        return value

    def _dict(self, value: dict[Any, Any], under: str) -> dict[Any, Any]:
        changed: dict[str, Any] = {}
        for key, item in value.items():
            if not isinstance(key, str):
                return value  # not JSON; whoever writes it says so
            name = self._same(key)
            while name is not key and (name in changed or name in value):
                name += "'"  # two secrets as keys are still two keys
            changed[name] = self._value(item, self._field(key, within=under))
        same = changed.keys() == value.keys() and not any(map(_differ, changed.values(), value.values()))
        return value if same else changed

    def _field(self, key: str, *, within: str) -> str:
        """What is to be known of a value under this key: a sensitive name, that its keys are headers, or nothing."""
        name = _plain_name(key)
        if name in self.fields or (within == _IN_HEADERS and name in self.headers):
            return name
        return _IN_HEADERS if name.endswith("headers") else ""

    def _named(self, text: str, under: str) -> str:
        if under == _IN_HEADERS or not text or text.startswith("[redacted:") or "secret://" in text:
            return self._same(text)
        return f"[redacted:{under}]"

    def _same(self, text: str) -> str:
        """The text, and that very object if nothing in it changes."""
        changed = self.text(text)
        return text if changed == text else changed

    def data(self, data: bytes) -> bytes:
        """Bytes of any kind (a file) without what is known or shaped like a secret."""
        if not self.suspects(data):
            return data
        text = data.decode("utf-8", "surrogateescape")
        return self.text(text).encode("utf-8", "surrogateescape")

    def holds_secret(self, text: str) -> bool:
        """Whether a name holds what would be redacted in a text."""
        data = text.encode("utf-8", "surrogatepass")
        return self.suspects(data) and self.text(text) != text


_IN_HEADERS: Final = "\0headers"


def _differ(one: Any, other: Any) -> bool:
    return one is not other


def _plain_name(name: str) -> str:
    return name.lower().replace("-", "_")


def _known(values: Mapping[str, str]) -> list[tuple[str, re.Pattern[str], Callable[[Any], str]]]:
    """Every way in which a known secret may be written, the longest first: one may be the beginning of another."""
    found: dict[str, str] = {}
    for value, name in values.items():
        for text in _spellings(value) if is_searchable(value) else ():
            found.setdefault(text, name)
    known: list[tuple[str, re.Pattern[str], Callable[[Any], str]]] = []
    for text, name in sorted(found.items(), key=lambda one: -len(one[0])):
        pattern = re.escape(text)
        if len(text) < _ANYWHERE_LENGTH_MIN:
            pattern = rf"(?<![0-9A-Za-z]){pattern}(?![0-9A-Za-z])"
        known.append((text, re.compile(pattern), functools.partial(_mark, name)))
    return known


def _mark(name: str, _found: Any) -> str:
    return f"[redacted:{name}]"


def _spellings(value: str) -> set[str]:
    """The secret as it is, inside a JSON text, as Python shows it, and in an address. Most secrets are one of all."""
    raw = value.encode("utf-8", "surrogatepass")
    ways = {
        value,
        value.strip(),
        json.dumps(value, ensure_ascii=False)[1:-1],
        json.dumps(value)[1:-1],
        repr(value)[1:-1],
        _percent(raw),
        _percent(raw).replace("%20", "+"),
    }
    return {way for way in ways if len(way) >= VALUE_LENGTH_MIN}


def _percent(raw: bytes) -> str:
    """The bytes as an address holds them."""
    return "".join(chr(byte) if chr(byte) in _UNRESERVED else f"%{byte:02X}" for byte in raw)


_UNRESERVED: Final = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~")


def _in_bytes(text: str) -> tuple[bytes, ...]:
    """A text as it stands in canonical JSON, and as it is."""
    raw = text.encode("utf-8", "surrogatepass")
    written = json.dumps(text, ensure_ascii=False)[1:-1].encode("utf-8", "surrogatepass")
    return (raw,) if written == raw else (raw, written)


def is_searchable(value: str) -> bool:
    """Whether a secret can be looked for and harm nothing else: long enough, and no word of the journal's own."""
    return len(value.strip()) >= VALUE_LENGTH_MIN and not any(value.strip() in word for word in own_words())


@functools.cache
def own_words() -> frozenset[str]:
    """The words that journals themselves are written in: types, fields, states, classes."""
    from holdfast.model import states
    from holdfast.model.events import EVENTS
    from holdfast.model.side_effects import CallStatus, Effect

    words = {"redact", "default", "attachment", "assistant"}
    for name, kind in EVENTS.items():
        words |= {name, *kind.__struct_fields__}
    for listed in (states.Status, states.WaitReason, states.MailKind, CallStatus, Effect):
        words |= {str(word) for word in listed}
    return frozenset(words)


current = Redactor()
"""The rules of this process. Set by `use`; read as an attribute of this module where every value passes."""


def here() -> Redactor:
    """The rules of this process."""
    return current


def use(redactor: Redactor) -> Redactor:
    """These are the rules of this process from now on; the answer is what they were."""
    global current
    before, current = current, redactor
    return before


def register(values: Mapping[str, str]) -> None:
    """These secrets are known by name from now on; what was known before stays."""
    if not values.items() <= {(name, value) for value, name in current.values.items()}:
        known = [*((name, value) for value, name in current.values.items()), *values.items()]
        use(Redactor(known, shapes=current.shapes, fields=current.fields, headers=current.headers))


def redact(text: str) -> str:
    """A text for people (a log line, a traceback, an error) without secrets."""
    return current.text(text)
