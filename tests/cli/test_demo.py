"""`holdfast demo`: its verdict is true, on both databases; and it can be false."""

from __future__ import annotations

import os
import subprocess
import sys

import msgspec
import pytest

from holdfast.demo.outside import Outside
from holdfast.demo.pdf import make_pdf
from holdfast.demo.story import Verdict
from tests.cli.conftest import CommandDesk
from tests.support.fixtures.stores import postgres_template

__all__ = ["postgres_template"]

pytestmark = pytest.mark.timeout(150)
TRUE = Verdict(pdfs=1, uploads=1, mails=1, repeated=0, kills=3, whole=True, completed=True)


@pytest.mark.parametrize("desk", ["sqlite", "postgres"], indirect=True)
def test_three_kills_and_nothing_twice(desk: CommandDesk) -> None:
    command = [sys.executable, "-m", "holdfast", "demo", "--store", desk.where]
    done = subprocess.run(
        command, env=os.environ | {"COLUMNS": "120"}, capture_output=True, text=True, timeout=140, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    lines = done.stdout.splitlines()
    kills = [nth for nth, line in enumerate(lines) if "✗ kill -9" in line]
    takeovers = [nth for nth, line in enumerate(lines) if "takes over" in line]
    assert sorted(kills + takeovers) == [nth for pair in zip(kills, takeovers, strict=True) for nth in pair]
    assert len(kills) == 3
    assert "the receiver confirms that it happened: not sent again" in done.stdout
    counted = [" ".join(line.split()) for line in lines[-6:]]
    assert counted == [
        "1 PDF",
        "1 upload",
        "1 e-mail",
        "0 repeated steps",
        "3 kills; the journal verifies",
        "Nothing lost, nothing repeated.",
    ]


@pytest.mark.parametrize(
    "wrong",
    [
        {"pdfs": 2},
        {"uploads": 2},
        {"mails": 0},
        {"mails": 2},
        {"repeated": 1},
        {"kills": 2},
        {"whole": False},
        {"completed": False},
    ],
)
def test_the_verdict_can_be_false(wrong: dict[str, int]) -> None:
    assert TRUE.true
    assert not msgspec.structs.replace(TRUE, **wrong).true


def test_the_receivers_count_what_arrives() -> None:
    """Files by their key, mails as often as they come: a second one would be seen."""
    outside = Outside()
    for _ in range(2):
        outside.answer("/files", {}, "key", b"%PDF")
        outside.deliver(b"Message-ID: <one@example.org>\r\n\r\nhello")
    outside.answer("/files", {}, "another key", b"%PDF")
    assert list(outside.files) == ["key", "another key"]
    assert outside.mails == ["<one@example.org>", "<one@example.org>"]


def test_a_page_of_pdf_is_whole() -> None:
    made = make_pdf("On (kelp)", "a\\b")
    assert made == make_pdf("On (kelp)", "a\\b")
    assert rb"(On \(kelp\))" in made
    at = int(made.rpartition(b"startxref\n")[2].split()[0])
    table = made[at:].splitlines()
    count = int(table[1].split()[1])
    for number, row in enumerate(table[3 : 2 + count], 1):
        assert made[int(row.split()[0]) :].startswith(f"{number} 0 obj".encode())
