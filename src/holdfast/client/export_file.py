"""Export file: the journal of a job in one file, which can be verified without a store.

    journal.jsonl     every event on its line, as canonical JSON, with the body exactly as it was sealed
    blobs/SHA256      the blobs that the journal names by digest: the messages of requests to models
    manifest.json     the job, the head of its journal, the number of events and blobs, the SHA-256 of each file
    manifest.sig      an Ed25519 signature of the manifest, if the exporter has a key

The file is a zip with exactly one encoding: not compressed, no times, files in order. So a check can encode what it
has read again and compare: this also finds bytes that are part of no file.
"""

from __future__ import annotations

import io
import re
import zipfile
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

import msgspec

from holdfast.client import signing
from holdfast.errors import HoldfastError, InvalidPayload
from holdfast.model import canonical
from holdfast.model.hash_chain import Head, SealedEvent, find_break
from holdfast.model.limits import BLOB_BYTES_MAX, MIB
from holdfast.model.states import Status, next_status

FORMAT: Final = "holdfast-export"
VERSION: Final = 1
JOURNAL: Final = "journal.jsonl"
MANIFEST: Final = "manifest.json"
SIGNATURE: Final = "manifest.sig"
BLOBS: Final = "blobs/"
ARCHIVE_BYTES_MAX: Final = 1024 * MIB
_WRITTEN_AT: Final = (1980, 1, 1, 0, 0, 0)


class ManifestEntry(msgspec.Struct, frozen=True):
    """One file in the manifest."""

    sha256: str
    size: int


class Manifest(msgspec.Struct, frozen=True, kw_only=True):
    """The job of the journal, and the figures that a check compares."""

    format: str
    version: int
    holdfast: str
    job_id: str
    kind: str
    namespace: str
    status: str
    head_seq: int
    head_hash: str
    events: int
    erased: int
    blobs: int
    exported_at: int
    files: dict[str, ManifestEntry]


class ExportVerdict(msgspec.Struct, frozen=True, kw_only=True):
    """The result of a check. Without problems, the file is what was exported. `signed_by` is the key, if there is a
    signature; `trusted`: it is the key that the checker named."""

    job_id: str = ""
    events: int = 0
    blobs: int = 0
    erased: int = 0
    signed_by: str = ""
    trusted: bool = False
    problems: tuple[str, ...] = ()


# ── writing ───────────────────────────────────────────────────────────────────────────────────────


def line_of(event: SealedEvent) -> bytes:
    """The event as a line. Its body is included as it was sealed; `null` if it was erased."""
    after = {
        "body_digest": event.body_digest.hex(),
        "fence": event.fence,
        "hash": event.hash.hex(),
        "seq": event.seq,
        "type": event.type,
        "version": event.version,
    }
    body = b"null" if event.body is None else event.body
    return b'{"at":%d,"body":%b,%b' % (event.at, body, msgspec.json.encode(after, order="sorted")[1:])


def pack_files(files: Mapping[str, bytes]) -> bytes:
    """The files as one zip, the same bytes for the same files."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_STORED) as archive:
        for name in sorted(files):
            entry = zipfile.ZipInfo(name, _WRITTEN_AT)
            entry.create_system, entry.external_attr = 3, 0o600 << 16
            archive.writestr(entry, files[name])
    return buffer.getvalue()


def seal_archive(files: Mapping[str, bytes], fields: Mapping[str, Any], key: signing.Key | None) -> bytes:
    """The archive of these files, with its manifest, signed if there is a key."""
    entries = {name: ManifestEntry(canonical.hex_digest(data), len(data)) for name, data in files.items()}
    manifest = msgspec.json.encode(
        Manifest(format=FORMAT, version=VERSION, files=entries, **fields), order="sorted"
    )
    whole = {**files, MANIFEST: manifest}
    if key is not None:
        whole[SIGNATURE] = key.signature_of(manifest)
    return pack_files(whole)


# ── checking ──────────────────────────────────────────────────────────────────────────────────────


def check(data: bytes, public_key: bytes | None = None) -> ExportVerdict:
    """Whether these bytes are an unchanged export. Nothing is unpacked to the disk."""
    try:
        files = _files_in(data)
        manifest = _manifest_in(files)
    except InvalidPayload as error:
        return ExportVerdict(problems=(str(error),))
    problems = [*_by_files(files, manifest, data)]
    signed_by, trusted = "", False
    try:
        signed_by, trusted = signing.check_signature(files[MANIFEST], files.get(SIGNATURE), public_key)
    except HoldfastError as error:
        problems.append(str(error))
    events, broken = _events_in(files.get(JOURNAL, b""))
    problems += broken or list(_by_chain(events, manifest))
    problems += _by_blobs(files, events)
    return ExportVerdict(
        job_id=manifest.job_id,
        events=len(events),
        blobs=manifest.blobs,
        erased=sum(event.body is None for event in events),
        signed_by=signed_by,
        trusted=trusted,
        problems=tuple(problems),
    )


def _files_in(data: bytes) -> dict[str, bytes]:
    if len(data) > ARCHIVE_BYTES_MAX:
        raise InvalidPayload(f"the file has {len(data):,} bytes; an export has at most {ARCHIVE_BYTES_MAX:,}")
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            entries = archive.infolist()
            if any(
                entry.compress_type != zipfile.ZIP_STORED or entry.file_size > BLOB_BYTES_MAX * 2
                for entry in entries
            ):
                raise InvalidPayload("the file is not written as an export is")
            return {entry.filename: archive.read(entry) for entry in entries}
    except (zipfile.BadZipFile, OSError, ValueError, NotImplementedError, RuntimeError, EOFError) as error:
        raise InvalidPayload(f"the file is no export, or it is damaged: {error}") from None


def _manifest_in(files: Mapping[str, bytes]) -> Manifest:
    if MANIFEST not in files:
        raise InvalidPayload(f"there is no {MANIFEST} in the file")
    try:
        manifest = msgspec.json.decode(files[MANIFEST], type=Manifest)
    except msgspec.MsgspecError as error:
        raise InvalidPayload(f"{MANIFEST} cannot be read: {error}") from None
    if (manifest.format, manifest.version) != (FORMAT, VERSION):
        raise InvalidPayload(
            f"an export of form {manifest.format} {manifest.version}; this Holdfast reads {VERSION}"
        )
    return manifest


def _by_files(files: Mapping[str, bytes], manifest: Manifest, data: bytes) -> Iterator[str]:
    for name, entry in manifest.files.items():
        if name not in files:
            yield f"{name} is missing"
        elif canonical.hex_digest(files[name]) != entry.sha256 or len(files[name]) != entry.size:
            yield f"{name} was changed"
    for name in sorted(files.keys() - manifest.files.keys() - {MANIFEST, SIGNATURE}):
        yield f"{name} is not in the manifest"
    if pack_files(files) != data:
        yield "there are bytes in the file that are not an export's"


_LINE: Final = re.compile(
    rb'\{"at":(?P<at>-?[0-9]{1,19}),"body":(?P<body>.*),"body_digest":"(?P<digest>[0-9a-f]{64})",'
    rb'"fence":(?P<fence>[0-9]{1,19}),"hash":"(?P<hash>[0-9a-f]{64})","seq":(?P<seq>[0-9]{1,19}),'
    rb'"type":"(?P<type>[a-z_]{1,60})","version":(?P<version>[0-9]{1,9})\}'
)
"""The form of a line: bodies need not be parsed to be compared, and only our own reader can parse them."""


def _events_in(journal: bytes) -> tuple[list[SealedEvent], list[str]]:
    """The events, as far as they can be read, and the fault of the first one that cannot."""
    events: list[SealedEvent] = []
    for nth, line in enumerate(journal.split(b"\n")[:-1], 1):
        match = _LINE.fullmatch(line)
        event = None if match is None else _event(match)
        if event is None or line_of(event) != line:
            return events, [f"line {nth} of {JOURNAL} is not written as an export is"]
        events.append(event)
    if not journal.endswith(b"\n"):
        return events, [f"{JOURNAL} does not end with a line"]
    return events, []


def _event(match: re.Match[bytes]) -> SealedEvent:
    body = match["body"]
    return SealedEvent(
        int(match["seq"]),
        match["type"].decode(),
        int(match["version"]),
        int(match["fence"]),
        int(match["at"]),
        None if body == b"null" else body,
        bytes.fromhex(match["digest"].decode()),
        bytes.fromhex(match["hash"].decode()),
    )


def _by_chain(events: list[SealedEvent], manifest: Manifest) -> Iterator[str]:
    broken = find_break(manifest.job_id, events)
    if broken is not None:
        yield f"the hash chain breaks at event {broken}"
        return
    last = Head(events[-1].seq, events[-1].hash) if events else Head(0, b"")
    if (last.seq, last.hash.hex(), len(events)) != (manifest.head_seq, manifest.head_hash, manifest.events):
        yield f"the journal ends at event {last.seq}, the manifest says {manifest.head_seq}"
    if manifest.erased != sum(event.body is None for event in events):
        yield "other bodies are erased than the manifest says"
    status: Status | None = None
    for event in events:
        status = next_status(status, event.type)
        if status is None:
            yield f"{event.type} at event {event.seq} cannot stand there"
            return
    if status != manifest.status:
        yield f"the journal ends {status}, the manifest says {manifest.status}"


def _by_blobs(files: Mapping[str, bytes], events: Iterable[SealedEvent]) -> Iterator[str]:
    digests = {digest for event in events for digest in find_blobs(event)}
    for name, data in files.items():
        if name.startswith(BLOBS):
            digest = name.removeprefix(BLOBS)
            if canonical.hex_digest(data) != digest:
                yield f"{name} does not match its digest"
            if digest not in digests:
                yield f"{name} is named by no event"


def find_blobs(event: SealedEvent) -> list[str]:
    """The blobs that an event names: the parts of a request to a model."""
    if event.type != "llm_requested" or event.body is None:
        return []
    try:
        return [str(digest) for digest in canonical.decode_stored(event.body).get("messages", ())]
    except (HoldfastError, AttributeError):
        return []  # an invalid body is found by its digest
