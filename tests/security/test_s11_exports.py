"""S11: a journal that was exported can be checked by anybody, without a store, and a changed byte is named."""

from __future__ import annotations

import io
import stat
import zipfile
from pathlib import Path

import httpx2
import pytest

from holdfast.client import export_file, signing
from holdfast.client.job_export import archive
from holdfast.errors import InvalidSetting
from holdfast.model import canonical, redaction
from holdfast.model.append import Extras
from holdfast.model.events import LlmRequested, StepFinished
from holdfast.model.hash_chain import find_break
from holdfast.model.jobs import JobDraft
from holdfast.store.contract import Store
from holdfast.testing.conformance.driver import Driver
from holdfast.testing.conformance.harness import Backend
from tests.api.client.job_states import Lives, lives
from tests.api.server.served import served
from tests.cli.conftest import CommandDesk, desk

__all__ = ["desk"]


@pytest.fixture
def key(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> signing.Key:
    made = signing.make_key(tmp_path / "signing.pem")
    monkeypatch.setenv("HOLDFAST_SIGNING_KEY", str(tmp_path / "signing.pem"))
    return made


async def journal(one: Lives) -> str:
    """A job with text of all kinds, and a blob that it names."""
    part = canonical.encode({"role": "user", "content": "hello"})
    job_id = (await one.store.jobs.submit(JobDraft(kind="chat", input="\ud800 é \n"))).job_id
    driver = Driver(one.store, one.clock, (await one.claim()).grant)
    await driver.write(
        LlmRequested("0/ask#1", "m", (canonical.hex_digest(part),), "d"), extras=Extras(blobs=(part,))
    )
    await driver.write(StepFinished("0/look#1", "d" * 64, result={"body": None, "at": 1.5, "x": ["}", '"']}))
    return job_id


async def exported(store: Store, job_id: str) -> bytes:
    return await archive(store, await store.jobs.head(job_id), 1)


@pytest.mark.parametrize("backend", ["memory", "sqlite", "postgres"], indirect=True)
async def test_an_export_holds_and_says_who_signed_it(backend: Backend, key: signing.Key) -> None:
    async with lives(backend) as one:
        job_id = await journal(one)
        data = await exported(one.store, job_id)
        assert data == await exported(one.store, job_id), "the same journal is the same file"
        verdict = export_file.check(data, key.public)
        assert verdict == export_file.ExportVerdict(
            job_id=job_id, events=4, blobs=1, signed_by=signing.format_public_key(key.public), trusted=True
        )
        assert not export_file.check(data).trusted, "a signature by anybody is no reason to believe it"
        events, problems = export_file._events_in(_files(data)[export_file.JOURNAL])
        assert problems == []
        assert events == await one.store.journal.read(job_id)
        assert find_break(job_id, events) is None


def _files(data: bytes) -> dict[str, bytes]:
    with zipfile.ZipFile(io.BytesIO(data)) as opened:
        return {name: opened.read(name) for name in opened.namelist()}


@pytest.mark.store("memory")
@pytest.mark.parametrize("backend", ["memory"], indirect=True)
async def test_every_changed_byte_is_found(backend: Backend, key: signing.Key) -> None:
    async with lives(backend) as one:
        data = await exported(one.store, await journal(one))
    assert len(data) > 2000
    quiet = [nth for nth in range(len(data)) if not _check_changed(data, nth, key.public)]
    assert quiet == []
    for other in (data[:-1], data + b"\0", b"\0" + data, data[: len(data) // 2], b"", b"PK"):
        assert export_file.check(other, key.public).problems


def _check_changed(data: bytes, nth: int, public: bytes) -> tuple[str, ...]:
    changed = bytearray(data)
    changed[nth] ^= 1
    return export_file.check(bytes(changed), public).problems


@pytest.mark.store("memory")
@pytest.mark.parametrize("backend", ["memory"], indirect=True)
async def test_what_is_wrong_is_named(backend: Backend, key: signing.Key, tmp_path: Path) -> None:
    async with lives(backend) as one:
        job_id = await journal(one)
        data = await exported(one.store, job_id)
    files = _files(data)
    stranger = signing.make_key(tmp_path / "other.pem")
    lines = files[export_file.JOURNAL].splitlines(keepends=True)
    forged = {**files, export_file.JOURNAL: files[export_file.JOURNAL].replace(b'"chat"', b'"chap"')}
    cases = {
        "journal.jsonl was changed": forged,
        "the hash chain breaks at event 1": forged,
        "the hash chain breaks at event 3": {**files, export_file.JOURNAL: lines[0] + b"".join(lines[2:])},
        "the journal ends at event 3": {**files, export_file.JOURNAL: b"".join(lines[:-1])},
        "does not match its digest": {
            name: b"other" if name.startswith(export_file.BLOBS) else data for name, data in files.items()
        },
        "is not in the manifest": {**files, "blobs/" + "0" * 64: b"x"},
        "signed by another key": {
            **files,
            export_file.SIGNATURE: stranger.signature_of(files[export_file.MANIFEST]),
        },
        "not signed": {name: data for name, data in files.items() if name != export_file.SIGNATURE},
        "signature does not fit": {**files, export_file.SIGNATURE: key.signature_of(b"another manifest")},
    }
    for problem, changed in cases.items():
        found = export_file.check(export_file.pack_files(changed), key.public).problems
        assert any(problem in one for one in found), (problem, found)
    # A whole forgery with a manifest of its own has everything but the key.
    told = {
        name: getattr(export_file._manifest_in(files), name)
        for name in export_file.Manifest.__struct_fields__
        if name not in {"format", "version", "files"}
    }
    whole = export_file.seal_archive({export_file.JOURNAL: forged[export_file.JOURNAL]}, told, stranger)
    assert any("another key" in one for one in export_file.check(whole, key.public).problems)


@pytest.mark.store("memory")
@pytest.mark.parametrize("backend", ["memory"], indirect=True)
async def test_a_checker_with_other_secrets_comes_to_the_same(backend: Backend, key: signing.Key) -> None:
    """What is sealed is compared as it is: rules about secrets are for what is written."""
    async with lives(backend) as one:
        data = await exported(one.store, await journal(one))
    redaction.set_redactor(
        redaction.Redactor({"greeting": "0/look#1-and-more", "hello": "user-hello"}, fields=redaction.FIELDS)
    )
    assert export_file.check(data, key.public).problems == ()


@pytest.mark.store("sqlite")
@pytest.mark.parametrize("backend", ["sqlite"], indirect=True)
async def test_over_http(backend: Backend, key: signing.Key) -> None:
    async with lives(backend) as one, served(one.store, backend.clock) as url:
        job_id = await journal(one)
        async with httpx2.AsyncClient(base_url=url, trust_env=False) as http:
            response = await http.get(f"/api/jobs/{job_id}/export", headers={"accept": "application/zip"})
            assert response.headers["content-type"] == "application/zip"
            assert export_file.check(response.content, key.public).problems == ()
            lines = await http.get(f"/api/jobs/{job_id}/export")
            assert lines.headers["content-type"].startswith("application/x-ndjson")


@pytest.mark.store("sqlite")
def test_at_a_terminal(desk: CommandDesk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = desk.type("export-key", str(tmp_path / "k.pem"))
    public = made.out.strip()
    assert stat.S_IMODE((tmp_path / "k.pem").stat().st_mode) == 0o600
    assert desk.type("export-key", str(tmp_path / "k.pem")).status == 2, "a key is not replaced"
    job_id = desk.live(journal)
    file = tmp_path / "job.zip"
    assert "not signed" in desk.type("export", job_id, "-o", str(file)).out
    assert desk.type("verify", str(file), "--public-key", public).status == 1
    monkeypatch.setenv("HOLDFAST_SIGNING_KEY", str(tmp_path / "k.pem"))
    assert public in desk.type("export", job_id, "-o", str(file)).out
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    monkeypatch.setenv("HOLDFAST_STORE", "sqlite:////nowhere/at/all.db")
    done = desk.type("verify", str(file), "--public-key", public)
    assert (done.status, "verified" in done.out) == (0, True)
    file.write_bytes(file.read_bytes().replace(b"hello", b"jello"))
    done = desk.type("verify", str(file))
    assert (done.status, "Bad CRC-32 for file 'blobs/" in done.out) == (1, True)
    (tmp_path / "k.pem").chmod(0o644)
    with pytest.raises(InvalidSetting, match="others can read"):
        signing.signing_key()
