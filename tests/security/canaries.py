"""Fifty planted secrets, and where to look for them afterwards."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import apsw
import asyncpg

_WORDS = "anchor barrel copper dolphin ember flint garnet harbour island juniper kelp lantern".split()

# Known by name: from the environment and from files, with everything that JSON, Python and addresses write differently.
KNOWN = {f"plain-{n}": f"{word}-{n * 7919:08d}-{word[::-1]}" for n, word in enumerate(_WORDS, 1)}
KNOWN |= {
    "quoted": 'se"cret-with-quotes-0001',
    "backslash": "se\\cret-with-backslash-2",
    "accents": "pässwörd-ümläut-000003",
    "spaces": "correct horse battery staple 4",
    "newline": "two-lines-0005\nof-one-secret",
    "slashes": "a/b+c/d==e/f-0000006",
    "short": "Tr0ub4d0r",
    "dsn": "p4ssw0rd-of-the-store-7",
    "emoji": "kelp🌿forest-00000008",
    "tabs": "tab\tseparated-000009",
    "json": '{"k":"v-0000000010"}',
    "percent": "100%25-encoded-0000011",
    "long": "x9" * 600,
}

_PEM_BODY = "MIIEvQIBADANBgkqhkiG9w0BAQEFAASCBKcwggSjAgEAAoIBAQC7VJTUt9Us8cKj"

# Known by nobody, and recognised by their shape.
SHAPED = [
    "sk-ant-api03-AAAAbbbbCCCCddddEEEEffff0001",
    "sk-proj-AAAAbbbbCCCCddddEEEEffff0002",
    "sk-AAAAbbbbCCCCddddEEEEffff0003",
    "sk" + "_live_AAAAbbbbCCCCddddEEEEff04",
    "sk" + "_test_AAAAbbbbCCCCddddEEEEff05",
    "rk" + "_live_AAAAbbbbCCCCddddEEEEff06",
    "ghp_AAAAbbbbCCCCddddEEEEffffGGGGhhhh0007",
    "gho_AAAAbbbbCCCCddddEEEEffffGGGGhhhh0008",
    "ghs_AAAAbbbbCCCCddddEEEEffffGGGGhhhh0009",
    "ghu_AAAAbbbbCCCCddddEEEEffffGGGGhhhh0010",
    "github_pat_AAAAbbbbCCCCddddEEEE_ffff0011",
    "glpat-AAAAbbbbCCCCdddd0012",
    "xoxb-000000000013-AAAAbbbbCCCC",
    "xoxp-000000000014-AAAAbbbbCCCC",
    "xoxa-000000000015-AAAAbbbbCCCC",
    "AKIAAAAABBBBCCCC0016",
    "ASIAAAAABBBBCCCC0017",
    "AIzaAAAAbbbbCCCCddddEEEEffffGGGGhhhh018",
    "npm_AAAAbbbbCCCCddddEEEEffffGGGGhhhh0019",
    "hf_AAAAbbbbCCCCddddEEEEffffGGGGhhhh20",
    "hfk.key21.AAAAbbbbCCCCddddEEEEffffGGGGhhhhJJJJkkkkLLL",
    "eyJhbGciOiJIUzI1NiJ9.eyJjYW5hcnkiOjIyfQ.AAAAbbbbCCCCddddEEEE22",
    "eyJhbGciOiJFUzI1NiJ9.eyJjYW5hcnkiOjIzfQ.AAAAbbbbCCCCddddEEEE23",
    f"-----BEGIN PRIVATE KEY-----\n{_PEM_BODY}\nAAAAbbbb0024\n-----END PRIVATE KEY-----",
    f"-----BEGIN RSA PRIVATE KEY-----\r\n{_PEM_BODY[::-1]}\r\nAAAAbbbb0025\r\n-----END RSA PRIVATE KEY-----",
]

ALL = [*KNOWN.values(), *SHAPED]
assert len(ALL) == len(set(ALL)) == 50

_NOT_NAMES = re.compile("[\x00-\x1f\x7f-\x9f]")


def as_names() -> Iterator[str]:
    """Each as a name could hold it: on one line, not too long. Those of more lines are no names anyhow."""
    for canary in ALL:
        if not _NOT_NAMES.search(canary) and len(canary) < 190:
            yield f"order:{canary}"


def _needles() -> dict[bytes, str]:
    """What would be found of each: itself, and its telling part as JSON and Python write it."""
    found: dict[bytes, str] = {}
    for canary in ALL:
        pieces = [
            line for line in re.split(r"[\r\n]+", canary) if len(line) >= 12 and "-----" not in line
        ] or [canary]
        ways = [
            canary,
            *pieces,
            *(json.dumps(one)[1:-1] for one in pieces),
            *(repr(one)[1:-1] for one in pieces),
        ]
        found |= {way.encode(): canary for way in ways}
    return found


NEEDLES = _needles()


def found_in(data: bytes | str) -> set[str]:
    """The canaries in these bytes."""
    data = data.encode("utf-8", "surrogatepass") if isinstance(data, str) else data
    return {canary for needle, canary in NEEDLES.items() if needle in data}


def in_sqlite(path: Path) -> dict[str, set[str]]:
    """Where canaries are in a SQLite store: in its files, byte for byte, and in its rows, which may span pages."""
    places = {
        file.name: found_in(file.read_bytes()) for file in path.parent.glob(f"{path.name}*") if file.is_file()
    }
    assert any(name.endswith("-wal") for name in places), "the log of the database is looked into as well"
    db = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READONLY)
    try:
        tables = [name for (name,) in db.execute("SELECT name FROM sqlite_schema WHERE type = 'table'")]
        for name in tables:
            places[name] = _in_rows(db.execute(f'SELECT * FROM "{name}"'))
    finally:
        db.close()
    return {place: found for place, found in places.items() if found}


async def in_postgres(url: str) -> dict[str, set[str]]:
    """Where canaries are in a Postgres store: in every column of every row of every table."""
    db = await asyncpg.connect(url)
    try:
        names = await db.fetch(
            "SELECT schemaname, tablename FROM pg_tables WHERE schemaname !~ '^(pg_|information_)'"
        )
        assert len(names) > 10
        places = {
            name: _in_rows(await db.fetch(f'SELECT * FROM "{schema}"."{name}"')) for schema, name in names
        }
    finally:
        await db.close()
    return {place: found for place, found in places.items() if found}


def _in_rows(rows: Any) -> set[str]:
    found: set[str] = set()
    for row in rows:
        for value in row:
            if isinstance(value, str | bytes):
                found |= found_in(value)
    return found
