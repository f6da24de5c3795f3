"""S8: what is stored is strict JSON in types from a closed list, and nothing stored is ever run."""

from __future__ import annotations

import pytest

from holdfast.errors import InvalidPayload, SchemaMismatch
from holdfast.model import canonical
from holdfast.model.events import StepFinished
from holdfast.model.hash_chain import EMPTY, SealedEvent, seal, unseal
from tests.tidy import test_banned_calls as lint


@pytest.mark.parametrize(
    "data",
    [
        b'{"a":1,"a":2}',
        b"[NaN]",
        b"[1e999]",
        b"[" * 65 + b"]" * 65,
        b"[9223372036854775808]",
        b"\xff",
        b"{1:2}",
        b"[1,]",
    ],
)
def test_what_is_not_strict_json_is_refused(data: bytes) -> None:
    with pytest.raises(InvalidPayload):
        canonical.decode(data)


@pytest.mark.parametrize("value", [float("nan"), {1: 2}, b"x", {"a": {1}}, 2**63, object()])
def test_nor_is_it_written(value: object) -> None:
    with pytest.raises(InvalidPayload):
        canonical.encode([value])


def test_a_type_is_looked_up_and_never_imported() -> None:
    (sealed,), _ = seal(
        "j", EMPTY, 1, 1, [StepFinished("0/a#1", "d", result={"__class__": "os.system", "type": "x"})]
    )
    assert unseal(sealed).result == {"__class__": "os.system", "type": "x"}  # type: ignore[attr-defined]
    for kind, version in (("os.system", 1), (sealed.type, 99)):
        with pytest.raises(SchemaMismatch):
            unseal(SealedEvent(1, kind, version, 1, 1, sealed.body, sealed.body_digest, sealed.hash))


def test_the_lint_knows_what_runs_stored_bytes() -> None:
    """It runs over the whole package in tests/tidy."""
    assert {"pickle.*", "marshal.*", "shelve.*", "eval", "exec"} <= lint.BANNED.keys()
