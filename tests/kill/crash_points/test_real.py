"""Real processes that die where they were ordered to, resumed by real processes; judged by the receivers' own logs."""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path
from typing import Any

import pytest

from holdfast.engine.crash_points import Point
from holdfast.engine.verify.verify import verify
from holdfast.model.jobs import JobDraft
from holdfast.runtime import open_store
from holdfast.runtime.crash_injection import STATUS
from holdfast.store.tables.store import SqlStore
from tests.kill.crash_points.crew import CASES
from tests.support.fixtures.file_receivers import FiledMail

UNKNOWN = {
    f"plain/send_mail/{point}" for point in (Point.AFTER_INTENT, Point.AFTER_SUCCESS, Point.BEFORE_LEDGER)
}
"""The mails of which nobody can know by themselves whether they went out."""


async def played(where: str, folder: Path) -> dict[str, dict[str, Any]]:
    """What the crew told of each case, once every job is over; the store is whole."""
    store = await open_store(where)
    await store.jobs.submit_many([JobDraft(kind=kind, input=kind) for kind in CASES])
    await store.close()
    arguments = [sys.executable, "-m", "tests.kill.crash_points.crew", where, str(folder)]
    pipe = asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec(*arguments, stdout=pipe, stderr=pipe)
    out, complaints = await process.communicate()
    assert process.returncode == 0, complaints.decode()
    store = await open_store(where)
    assert isinstance(store, SqlStore)
    report = await verify(store)
    await store.close()
    assert report.clean, report
    told: dict[str, dict[str, Any]] = json.loads(out)
    return told


@pytest.mark.parametrize("store", ["sqlite", "postgres"])
async def test_whatever_died_its_report_goes_out_once(where: str, volatile_folder: Path) -> None:
    """Look, render, upload, mail; killed around the mail with each of four services, and around the store."""
    told = await played(where, volatile_folder)
    mail = FiledMail(volatile_folder / "mail.log")
    assert len(told) == len(CASES) >= 30
    for kind, case in CASES.items():
        case_told = told[kind]
        assert case_told["first"] == STATUS, f"{kind}: {case_told}"
        assert case_told["second"] == 0, f"{kind}: {case_told}"
        assert case_told["status"] == "completed", f"{kind}: {case_told}"
        assert mail.count("upload", kind) == 1, f"{kind}: uploaded once"
        assert mail.count("mail", kind) == 1, f"{kind}: {case.adapter} mail went out once"
        assert case_told["mails_before"] <= 1, f"{kind}: and at most once before anybody said a word"
        name, place, receipt = case_told["output"]
        assert (volatile_folder / name).read_text() == f"%PDF {[f'seen {kind}'] * 2}"
        assert place.startswith("/files/")
        assert mail.has(receipt) or case.adapter == "draft"
    asked = {kind for kind in CASES if told[kind]["asked"]}
    assert asked >= UNKNOWN
    assert all(kind.startswith("plain/") for kind in asked), "only a plain mail ever needs a person's word"
    again = sum(mail.count("request", kind) > 1 for kind in CASES)
    print(
        f"{len(CASES)} processes died as ordered; {len(asked)} times somebody was asked, {again} keys sent again"
    )
    assert again, "some were sent again under their key"
