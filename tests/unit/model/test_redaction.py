"""What must not be written down is found in all its forms and taken out where values become bytes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.errors import InvalidName, InvalidPayload
from holdfast.model import canonical, redaction
from holdfast.model.events import StepFinished
from holdfast.model.hash_chain import EMPTY, find_break, seal, unseal
from holdfast.model.ids import check_name
from holdfast.model.redaction import Redactor
from holdfast.model.session import TurnCommit, Usage, check_commit

PEM = "-----BEGIN EC PRIVATE KEY-----\nMHcCAQEEIIGlq3u0lV6zQ\nAwEHoUQDQgAE\n-----END EC PRIVATE KEY-----"
ODD = 'a"b\\c\n€-d'
TOKENS = {
    "api-key": "sk-ant-api03-Zm9vYmFyYmF6cXV4MTIzNDU2",
    "stripe-key": "sk" + "_live_4eC39HqLyjWDarjtT1zdp7dc",
    "github-token": "ghp_16C7e42F292c6912E7710c838347Ae178B4a",
    "gitlab-token": "glpat-xYz12345678901234567",
    "slack-token": "xoxb-123456789012-abcdefGHIJKL",
    "aws-key": "AKIAIOSFODNN7EXAMPLE",
    "google-key": "AIzaSyA-1234567890abcdefghijklmnopqrstu",
    "npm-token": "npm_abcdefghijklmnopqrstuvwxyz0123456789",
    "hugging-face-token": "hf_aBcDeFgHiJkLmNoPqRsTuVwXyZaBcDeFgH",
    "holdfast-key": "hfk.k01.abcdefghijklmnopqrstuvwxyz0123456789ABCDEFG",
    "jwt": "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0.dozjgNryP4J3jVmNHl0w5N",
    "private-key": PEM,
}


@pytest.fixture(autouse=True)
def usual_rules() -> Iterator[None]:
    before = redaction.set_redactor(
        Redactor({"stripe": "correct-horse-battery", "pin": "hunter2!", "odd": 'a"b\\c\n€-d'})
    )
    yield
    redaction.set_redactor(before)


@pytest.mark.parametrize("label", TOKENS)
@pytest.mark.parametrize(
    "around", ["{}", "key={}", '"{}"', "line\n{}\nline", "({})", "a {} b", "lorem ipsum " * 200 + "{}"]
)
def test_tokens_are_known_by_their_shape(label: str, around: str) -> None:
    text = around.format(TOKENS[label])
    written = canonical.encode({"text": text, TOKENS[label]: [text]})
    assert canonical.decode(written) == {
        "text": around.format(f"[redacted:{label}]"),
        f"[redacted:{label}]": [around.format(f"[redacted:{label}]")],
    }


@pytest.mark.parametrize(
    "text, left",
    [
        ("postgresql://ada:s3cret-word@db/x", "postgresql://[redacted:password]@db/x"),
        ("Authorization: Bearer abcdef0123456789abcdef", "Authorization: Bearer [redacted:bearer]"),
        ("authorization: Basic YWRhOmxvdmVsYWNl", "authorization: Basic [redacted:basic]"),
        ("x" + PEM[:70], "x[redacted:private-key]"),
    ],
)
def test_secrets_inside_other_text(text: str, left: str) -> None:
    assert canonical.decode(canonical.encode([text])) == [left]


@pytest.mark.parametrize(
    "text",
    [
        "a task-force of the risk-averse kind with long-hyphenated-compound-words-here",
        "the bearer of responsibilities and internationalisation",
        "https://example.com/a?b=c@d",
        "eyJ is how they begin",
        "0123456789abcdef" * 4,
        "hf_0123456789abcdef0123456789abcdef01234567",
        "bask-ABCDEFGHIJKLMNOPQRSTUVWXYZ",
        "see secret://stripe",
    ],
)
def test_what_only_resembles_a_secret_is_left(text: str) -> None:
    assert canonical.decode(canonical.encode([text])) == [text]


@pytest.mark.parametrize(
    "data, suspects",
    [
        (b'{"worker":"host@4711"}', False),
        (b'{"at":"https://example.org/a"}', False),
        (b'{"at":"https://me:word@example.org/"}', True),
        (b'{"step_key":"1/fetch#1","result":"a-b_c.d A"}', False),
        ('{"a":"ÀÉ"}'.encode(), False),
    ],
)
def test_most_bytes_are_not_worth_a_second_look(data: bytes, suspects: bool) -> None:
    """Every claim names its worker with an @: alone it is no address with a password in it."""
    assert Redactor().suspects(data) is suspects


@pytest.mark.parametrize(
    "text, left",
    [
        ("it is correct-horse-battery.", "it is [redacted:stripe]."),
        ("xcorrect-horse-batteryx", "x[redacted:stripe]x"),
        ("pin=hunter2! ", "pin=[redacted:pin] "),
        ("xhunter2!", "xhunter2!"),  # a short one inside a word is a coincidence
        (ODD, "[redacted:odd]"),
        (f"{ODD!r}", "'[redacted:odd]'"),
        ('{"k":"a\\"b\\\\c\\n€-d"}', '{"k":"[redacted:odd]"}'),
        ("q=a%22b%5Cc%0A%E2%82%AC-d", "q=[redacted:odd]"),
    ],
)
def test_known_values_in_all_their_spellings(text: str, left: str) -> None:
    assert canonical.decode(canonical.encode({"t": text})) == {"t": left}


def test_headers_and_fields() -> None:
    headers = {"Authorization": "opaque", "Accept": "text/html", "X-Api-Key": ["a", "b"]}
    asked = {
        "headers": headers,
        "password": "plain",
        "pairs": {"request_headers": [["Cookie", "id=1"], ["A", "b"]]},
    }
    assert canonical.decode(canonical.encode(asked)) == {
        "headers": {
            "Authorization": "[redacted:authorization]",
            "Accept": "text/html",
            "X-Api-Key": ["[redacted:x_api_key]", "[redacted:x_api_key]"],
        },
        "password": "plain",
        "pairs": {"request_headers": [["Cookie", "[redacted:cookie]"], ["A", "b"]]},
    }
    redaction.set_redactor(Redactor(fields=redaction.FIELDS))
    assert canonical.decode(
        canonical.encode({"Password": "plain", "max_tokens": 5, "client-secret": "x"})
    ) == {
        "Password": "[redacted:password]",
        "max_tokens": 5,
        "client-secret": "[redacted:client_secret]",
    }
    reference = {"headers": {"authorization": "Bearer secret://stripe"}}
    assert canonical.decode(canonical.encode(reference)) == reference


def test_two_secrets_as_keys_are_two_keys() -> None:
    tokens = [TOKENS["aws-key"], "AKIAIOSFODNN7EXAMPLF"]
    assert canonical.decode(canonical.encode(dict.fromkeys(tokens, 1))) == {
        "[redacted:aws-key]": 1,
        "[redacted:aws-key]'": 1,
    }


def test_a_chain_is_over_what_is_stored() -> None:
    event = StepFinished("0/a#1", "d", result={"key": TOKENS["api-key"]})
    sealed, _ = seal("job", EMPTY, 1, 1, [event])
    assert find_break("job", sealed) is None
    assert unseal(sealed[0]) == StepFinished("0/a#1", "d", result={"key": "[redacted:api-key]"})


def test_a_digest_does_not_depend_on_the_value_of_a_known_secret() -> None:
    """So a secret may be changed while jobs that use it are under way."""
    before = canonical.digest_of({"token": "correct-horse-battery"})
    redaction.set_redactor(Redactor({"stripe": "another-horse-entirely"}))
    assert canonical.digest_of({"token": "another-horse-entirely"}) == before


@pytest.mark.parametrize("name", [*TOKENS.values(), "order-correct-horse-battery"])
def test_names_are_refused(name: str) -> None:
    with pytest.raises(InvalidName) as refused:
        check_name(name.replace("\n", " "), "job id")
    assert name not in str(refused.value)
    with pytest.raises(InvalidPayload):
        check_commit(TurnCommit(session_id="s", usage=(Usage(source="x", model=name),)))


@pytest.mark.parametrize("value", ["short", "succeeded", "args_digest", "step_key"])
def test_words_that_journals_are_made_of_are_not_looked_for(value: str) -> None:
    redaction.set_redactor(Redactor({"silly": value}))
    event = StepFinished("0/a#1", "d" * 64, outcome="succeeded", result={"args_digest_of": value})
    sealed, _ = seal("job", EMPTY, 1, 1, [event])
    assert unseal(sealed[0]) == event


def test_bytes_of_any_kind() -> None:
    data = b"\xff\x00" + TOKENS["aws-key"].encode() + b" \xfe"
    assert redaction.get_redactor().data(data) == b"\xff\x00[redacted:aws-key] \xfe"
    assert redaction.get_redactor().data(b"\xff\x00plain") == b"\xff\x00plain"


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**62), 2**62) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=20,
)


@given(_JSON)
def test_what_holds_no_secret_is_written_as_ever(value: Any) -> None:
    before = redaction.set_redactor(Redactor(shapes=(), headers=frozenset()))
    plain = canonical.encode(value)
    redaction.set_redactor(before)
    assert canonical.encode(value) == plain


@given(_JSON, st.sampled_from(sorted(TOKENS.values())), st.text(max_size=5))
def test_nothing_is_left_of_a_secret_and_saying_it_again_changes_nothing(
    value: Any, token: str, near: str
) -> None:
    written = canonical.encode([value, f"{near} {token}", {f"{token} {near}": value}])
    text = written.decode()
    assert token not in text
    assert token.replace("\n", "\\n") not in text
    assert canonical.encode(canonical.decode(written)) == written


@pytest.mark.parametrize("rule", ["values", "shapes"])
def test_without_the_rule_it_is_written(rule: str) -> None:
    """What the tests above would see if nothing were done."""
    redaction.set_redactor(Redactor(shapes=() if rule == "shapes" else redaction.SHAPES))
    text = TOKENS["aws-key"] if rule == "shapes" else "correct-horse-battery"
    assert canonical.decode(canonical.encode([text])) == [text]
