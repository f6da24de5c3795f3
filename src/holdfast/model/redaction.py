"""Redaction: removes secrets where values become bytes, before anything is digested.

`canonical.encode` is the only way from a value to bytes, and a journal, its digests and the values that an agent's code
continues with are all made of those bytes. So secrets are replaced there: the digest of a call is the digest of what is
stored of it, a replay finds the call again, and the code gets the same text in the first run and in every replay. Names
(ids, keys) are not replaced, because a changed name is another name; `check_name` rejects a name that holds a secret.

Three rules:

    values    secrets that this process knows by name, anywhere in a text                     [redacted:stripe]
    shapes    text that looks like a token, a private key, a password in a URL                [redacted:aws-key]
    fields    text under a sensitive name: headers always, any other field if configured      [redacted:authorization]

Almost all data holds no secret; a search for a few short needles in the bytes proves that. Only data with a needle is
matched against the patterns, and only data with a match is walked through.

The rules belong to the process, like its environment: a secret of one application in a process is redacted for all of
them. `set_redactor` sets them once, when a store is opened; everything else here is a pure function of its arguments.
"""

from __future__ import annotations

import functools
import json
import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

VALUE_LENGTH_MIN: Final = 8
"""Shorter secrets occur in too many harmless texts by chance. They can be used, but are not searched for."""

_ANYWHERE_LENGTH_MIN: Final = 16
"""A secret of this length or more is found inside a word as well: no digest or id of Holdfast contains it by chance."""

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
"""Fields whose text is usually a secret; matched only if configured, since some are not."""

_BEFORE: Final = r"(?<![A-Za-z0-9_-])"


class TokenPattern:
    """One kind of token: its pattern, and the needle that must occur before the pattern is tried. A pattern is compiled
    when its needle first occurs, which is rare."""

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
        """The pattern for bytes, without a condition on the character before: in JSON a line break is an escape that
        ends in a letter."""
        return re.compile(self._looks.encode())


SHAPES: Final = (
    TokenPattern("api-key", ("sk-",), r"sk-[A-Za-z0-9_-]{20,}"),
    TokenPattern("stripe-key", ("k_live_", "k_test_"), r"[sr]k_(?:live|test)_[A-Za-z0-9]{16,}"),
    TokenPattern("github-token", ("ghp_", "gho_", "ghu_", "ghs_", "ghr_"), r"gh[pousr]_[A-Za-z0-9]{20,}"),
    TokenPattern("github-token", ("github_pat_",), r"github_pat_[A-Za-z0-9_]{20,}"),
    TokenPattern("gitlab-token", ("glpat-",), r"glpat-[A-Za-z0-9_-]{20,}"),
    TokenPattern("slack-token", ("xox",), r"xox[abeoprs]-[A-Za-z0-9-]{10,}"),
    TokenPattern("aws-key", ("AKIA", "ASIA"), r"(?:AKIA|ASIA)[0-9A-Z]{16}(?![0-9A-Za-z])"),
    TokenPattern("google-key", ("AIza",), r"AIza[0-9A-Za-z_-]{35}"),
    TokenPattern("npm-token", ("npm_",), r"npm_[A-Za-z0-9]{36}"),
    TokenPattern(
        "hugging-face-token", ("hf_",), r"hf_(?=[a-z0-9]*[A-Z])[A-Za-z0-9]{30,}"
    ),  # an idempotency key has no capitals
    TokenPattern("holdfast-key", ("hf",), r"hf[a-z]{0,3}[._][A-Za-z0-9-]{2,40}[._][A-Za-z0-9_-]{32,}"),
    TokenPattern("jwt", (".eyJ",), r"eyJ[A-Za-z0-9_-]{8,}\.eyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]*"),
    TokenPattern(
        "private-key",
        ("PRIVATE KEY-----",),
        r"(?s)-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY-----.*?(?:-----END [A-Z0-9 ]{0,40}PRIVATE KEY-----|\Z)",
        whole=False,
    ),
    TokenPattern(
        "bearer", ("earer ",), r"(?<=[Bb]earer )(?=[A-Za-z._~+/-]*[0-9])[A-Za-z0-9._~+/-]{16,}=*", whole=False
    ),
    TokenPattern(
        "basic", ("uthorization: ",), r"(?<=uthorization: [Bb]asic )[A-Za-z0-9+/]{8,}={0,2}", whole=False
    ),
    TokenPattern(
        "password", ("://",), r"(?<=://)[^\s/:@\"'\[\]]{0,80}:[^\s/@\"'\[\]]{3,200}(?=@)", whole=False
    ),
)


_DASH: Final = re.compile(r"-(?:(?<=sk-)|(?<=xox.-)|(?<=glpat-)|(?<=PRIVATE KEY-))").search
_LINE: Final = re.compile(
    r"_(?:(?<=gh[pousr]_)|(?<=k_(?:live|test)_)|(?<=_pat_)|(?<=npm_)|(?<=hf_)|(?<=hf._)|(?<=hf.._)|(?<=hf..._))"
).search
_DOT: Final = re.compile(r"\.(?:eyJ|(?<=hf\.)|(?<=hf.\.)|(?<=hf..\.)|(?<=hf...\.))").search
_CAPITAL: Final = re.compile("A(?:KIA|SIA|Iza)").search
"""Every shape contains a distinctive character at a known position, and a search for one character is fast."""


class Redactor:
    """The compiled rules. `values` are secrets by name; `fields` and `headers` are as `_plain_name` writes them."""

    def __init__(
        self,
        values: Mapping[str, str] | Iterable[tuple[str, str]] = (),
        *,
        shapes: Iterable[TokenPattern] = SHAPES,
        fields: frozenset[str] = frozenset(),
        headers: frozenset[str] = HEADERS,
    ) -> None:
        pairs = values.items() if isinstance(values, Mapping) else values
        self.values = {value: name for name, value in reversed(list(pairs))}
        """Name by value. A secret that was rotated has its old value here, too; a value with several names has the
        first."""
        self.shapes = tuple(shapes)
        self.fields = fields
        self.headers = headers
        self._known = _compile_secrets(self.values)
        known = [needle for text, _, _ in self._known for needle in _encode_text(text)]
        self._always = tuple(dict.fromkeys([*known, *([b'eaders":'] if headers else [])]))
        self._needles = tuple(dict.fromkeys(known))
        self._shaped = bool(self.shapes or headers)
        self._fielded = tuple({name.rpartition("_")[2].encode() for name in fields})
        self.looks_for_shapes_only = not self._needles and not self._fielded
        """Whether the rules have no known values and no field names."""
        self.plain_names: set[str] = set()
        """Names, without the number after them, that hold no secret."""

    def suspects(self, data: bytes) -> bool:
        """Whether these bytes may hold a secret. False is certain."""
        text = data.decode("latin-1")  # starting a search in bytes takes longer than the search in a str
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
        """Whether suspicious bytes need to be walked through: they match a whole shape, or contain a known value or a
        field."""
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
        """The JSON value without its secrets; the same object if there are none. Keys are redacted like other text."""
        return self._value(value, "")

    def _value(self, value: Any, under: str) -> Any:
        kind = type(value)
        if isinstance(value, str):
            return self._redact_field(value, under) if under else self._redact_text(value)
        if kind is dict:
            return self._dict(value, under)
        if kind is list or kind is tuple:
            if under == _IN_HEADERS and len(value) == 2 and isinstance(value[0], str):  # one header as a pair
                return [
                    self._redact_text(value[0]),
                    self._value(value[1], self._field(value[0], within=under)),
                ]
            changed = [self._value(item, under) for item in value]
            return changed if any(map(_differ, changed, value)) else value
        return value

    def _dict(self, value: dict[Any, Any], under: str) -> dict[Any, Any]:
        changed: dict[str, Any] = {}
        for key, item in value.items():
            if not isinstance(key, str):
                return value  # not JSON; the encoder raises the error
            name = self._redact_text(key)
            while name is not key and (name in changed or name in value):
                name += "'"  # two secrets as keys are still two keys
            changed[name] = self._value(item, self._field(key, within=under))
        same = changed.keys() == value.keys() and not any(map(_differ, changed.values(), value.values()))
        return value if same else changed

    def _field(self, key: str, *, within: str) -> str:
        """How to treat a value under this key: the sensitive name, the mark for headers, or the empty string."""
        name = _plain_name(key)
        if name in self.fields or (within == _IN_HEADERS and name in self.headers):
            return name
        return _IN_HEADERS if name.endswith("headers") else ""

    def _redact_field(self, text: str, under: str) -> str:
        if under == _IN_HEADERS or not text or text.startswith("[redacted:") or "secret://" in text:
            return self._redact_text(text)
        return f"[redacted:{under}]"

    def _redact_text(self, text: str) -> str:
        """The redacted text; the same object if nothing changes."""
        changed = self.text(text)
        return text if changed == text else changed

    def data(self, data: bytes) -> bytes:
        """Bytes of any kind (a file) without known secrets and without text in the shape of a secret."""
        if not self.suspects(data):
            return data
        text = data.decode("utf-8", "surrogateescape")
        return self.text(text).encode("utf-8", "surrogateescape")

    def holds_secret(self, text: str) -> bool:
        """Whether a name holds text that would be redacted."""
        data = text.encode("utf-8", "surrogatepass")
        return self.suspects(data) and self.text(text) != text


_IN_HEADERS: Final = "\0headers"


def _differ(value: Any, other: Any) -> bool:
    return value is not other


def _plain_name(name: str) -> str:
    return name.lower().replace("-", "_")


def _compile_secrets(values: Mapping[str, str]) -> list[tuple[str, re.Pattern[str], Callable[[Any], str]]]:
    """Patterns for every spelling of the known secrets, the longest first, because one may be a prefix of another."""
    found: dict[str, str] = {}
    for value, name in values.items():
        for text in _list_spellings(value) if is_searchable(value) else ():
            found.setdefault(text, name)
    known: list[tuple[str, re.Pattern[str], Callable[[Any], str]]] = []
    for text, name in sorted(found.items(), key=lambda pair: -len(pair[0])):
        pattern = re.escape(text)
        if len(text) < _ANYWHERE_LENGTH_MIN:
            pattern = rf"(?<![0-9A-Za-z]){pattern}(?![0-9A-Za-z])"
        known.append((text, re.compile(pattern), functools.partial(_mark, name)))
    return known


def _mark(name: str, _found: Any) -> str:
    return f"[redacted:{name}]"


def _list_spellings(value: str) -> set[str]:
    """Spellings of a secret: plain, in JSON, as Python's `repr`, and in a URL. For most secrets all are equal."""
    raw = value.encode("utf-8", "surrogatepass")
    spellings = {
        value,
        value.strip(),
        json.dumps(value, ensure_ascii=False)[1:-1],
        json.dumps(value)[1:-1],
        repr(value)[1:-1],
        _percent_encode(raw),
        _percent_encode(raw).replace("%20", "+"),
    }
    return {spelling for spelling in spellings if len(spelling) >= VALUE_LENGTH_MIN}


def _percent_encode(raw: bytes) -> str:
    """The bytes percent-encoded, as in a URL."""
    return "".join(chr(byte) if chr(byte) in _UNRESERVED else f"%{byte:02X}" for byte in raw)


_UNRESERVED: Final = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~")


def _encode_text(text: str) -> tuple[bytes, ...]:
    """The text as canonical JSON writes it, and as plain UTF-8."""
    raw = text.encode("utf-8", "surrogatepass")
    written = json.dumps(text, ensure_ascii=False)[1:-1].encode("utf-8", "surrogatepass")
    return (raw,) if written == raw else (raw, written)


def is_searchable(value: str) -> bool:
    """Whether a secret can be searched for without harm: long enough, and not part of a word that journals use."""
    return len(value.strip()) >= VALUE_LENGTH_MIN and not any(
        value.strip() in word for word in list_own_words()
    )


@functools.cache
def list_own_words() -> frozenset[str]:
    """The words that journals use themselves: event types, fields, states, classes."""
    from holdfast.model import states
    from holdfast.model.events import EVENTS
    from holdfast.model.side_effects import CallStatus, Effect

    words = {"redacted", "default", "attachment", "assistant"}
    for name, kind in EVENTS.items():
        words |= {name, *kind.__struct_fields__}
    for listed in (states.Status, states.WaitReason, states.MailKind, CallStatus, Effect):
        words |= {str(word) for word in listed}
    return frozenset(words)


current = Redactor()
"""The rules of this process. Set by `set_redactor`; hot paths read it as an attribute of this module."""


def get_redactor() -> Redactor:
    """The rules of this process."""
    return current


def set_redactor(redactor: Redactor) -> Redactor:
    """Set the rules of this process; returns the rules before."""
    global current
    before, current = current, redactor
    return before


def register(values: Mapping[str, str]) -> None:
    """Add secrets by name to the rules of this process."""
    if not values.items() <= {(name, value) for value, name in current.values.items()}:
        known = [*((name, value) for value, name in current.values.items()), *values.items()]
        set_redactor(Redactor(known, shapes=current.shapes, fields=current.fields, headers=current.headers))


def redact(text: str) -> str:
    """A text for people (a log line, a traceback, an error) without secrets."""
    return current.text(text)
