"""HOLDFAST_NATS_URL is read, or refused without a word of what is secret in it."""

from __future__ import annotations

import pytest

from holdfast.errors import InvalidSetting
from holdfast.registry.addresses import NatsAddress, nats_settings, parse_servers

SECRET = "hush-hush-17"


def test_addresses_are_read() -> None:
    assert parse_servers("nats://host") == (NatsAddress(host="host"),)
    assert parse_servers("host:1234") == (NatsAddress(host="host", port=1234),)
    assert parse_servers("tls://u:p%40ss@h:1, nats://token@[::1]:2") == (
        NatsAddress(host="h", port=1, user="u", password="p@ss", encrypted=True),
        NatsAddress(host="::1", port=2, user="token"),
    )
    assert [str(one) for one in parse_servers("a,b:5,nats://[::1]:2")] == ["a:4222", "b:5", "[::1]:2"]


def test_nothing_said_is_no_nats() -> None:
    assert nats_settings({}) is None
    assert nats_settings({"HOLDFAST_NATS_URL": "  "}) is None
    found = nats_settings({"HOLDFAST_NATS_URL": "nats://127.0.0.1", "HOLDFAST_NATS_CA": "ca.pem"})
    assert found is not None
    assert (found.ca, found.is_local) == ("ca.pem", True)
    for others in ("nats://nats:4222", "nats://10.0.0.1", "nats://127.0.0.1,nats://elsewhere"):
        settings = nats_settings({"HOLDFAST_NATS_URL": others})
        assert settings is not None
        assert not settings.is_local


@pytest.mark.parametrize(
    "url",
    [
        ",",
        f"http://u:{SECRET}@host",
        f"ws://u:{SECRET}@host",
        f"nats://u:{SECRET}@",
        f"nats://u:{SECRET}@host:port",
        f"nats://u:{SECRET}@host:99999",
        f"nats://u:{SECRET}@[::1",
        f"nats://u:{SECRET}@host/path",
        f"nats://u:{SECRET}@host?x=1",
        ",".join([f"nats://u:{SECRET}@host"] * 33),
    ],
)
def test_what_is_no_address_is_refused_and_not_repeated(url: str) -> None:
    with pytest.raises(InvalidSetting) as refused:
        parse_servers(url)
    assert SECRET not in f"{refused.value}{refused.value.hint}"
    assert "HOLDFAST_NATS_URL" in refused.value.hint


def test_an_address_shows_no_secret() -> None:
    (one,) = parse_servers(f"nats://u:{SECRET}@host")
    assert SECRET not in f"{one} {one!r} {[one]}"
    settings = nats_settings({"HOLDFAST_NATS_URL": f"nats://u:{SECRET}@host"})
    assert SECRET not in f"{settings!r}"
