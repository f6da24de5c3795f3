"""Blobs over SQL, and the collection of those that nothing refers to."""

from __future__ import annotations

import hashlib

from holdfast.errors import InvalidPayload, NotFound, StoreCorrupt, TooLarge
from holdfast.model import canonical
from holdfast.model.envelope import must_be_open
from holdfast.model.jobs import DEFAULT_NAMESPACE
from holdfast.model.limits import BLOB_BYTES_MAX
from holdfast.model.session import CollectionResult
from holdfast.store.executor import Executor, Row, Transaction
from holdfast.store.tables.checkpoints import blobs_of
from holdfast.store.tables.payloads import need_namespace

_BY_CONTENT = "sha256:"


class SqlBlobs:
    def __init__(self, executor: Executor) -> None:
        self._executor = executor

    async def put(self, body: bytes, *, namespace: str = DEFAULT_NAMESPACE) -> str:
        if len(body) > BLOB_BYTES_MAX:
            msg = f"{len(body)} bytes are more than the limit of {BLOB_BYTES_MAX}"
            raise TooLarge(msg, hint="Split the content, or keep it elsewhere and store its address.")
        digest = hashlib.sha256(body).digest()

        async def work(tx: Transaction) -> None:
            await need_namespace(tx, namespace)
            await tx.run("put_blob", namespace=namespace, digest=digest, body=body)

        await self._executor.write(work)
        return digest.hex()

    async def get(self, digest: str, *, namespace: str = DEFAULT_NAMESPACE) -> bytes:
        raw = _decode_digest(digest)

        async def work(tx: Transaction) -> Row | None:
            return await tx.row("get_blob", namespace=namespace, digest=raw)

        row = await self._executor.read(work)
        if row is None:
            msg = f"there is no blob {digest}"
            raise NotFound(msg)
        body = bytes(row[0])
        if hashlib.sha256(body).digest() != raw:
            must_be_open(body, f"blob {digest}")
            msg = f"blob {digest} does not match its digest"
            raise StoreCorrupt(msg)
        return body

    async def has(self, digest: str, *, namespace: str = DEFAULT_NAMESPACE) -> bool:
        async def work(tx: Transaction) -> Row | None:
            return await tx.row("has_blob", namespace=namespace, digest=_decode_digest(digest))

        return await self._executor.read(work, brief=True) is not None


def _decode_digest(digest: str) -> bytes:
    try:
        raw = bytes.fromhex(digest)
    except ValueError:
        raw = b""
    if len(raw) != hashlib.sha256().digest_size:
        msg = f"{digest!r} is not a SHA-256 in hex"
        raise InvalidPayload(msg, hint="A blob is named by the 64 hex digits that `put` returned.")
    return raw


async def collect_in(tx: Transaction, namespace: str, older_than_us: int) -> CollectionResult:
    """Remove unreferenced blobs past their grace period; count the others."""
    counted = await tx.row("count_blobs", namespace=namespace)
    now = await tx.row("read_wall_clock")
    assert counted is not None
    assert now is not None
    referenced = await find_named_digests(tx, namespace)
    unreferenced = [
        row
        for row in await tx.rows("list_unreferenced_blobs", namespace=namespace)
        if bytes(row[0]) not in referenced
    ]
    old = [row for row in unreferenced if row[1] <= now[0] - older_than_us]
    for digest, _ in old:
        await tx.run("remove_blob", namespace=namespace, digest=digest)
    return CollectionResult(
        roots=counted[0] - len(unreferenced), retained=len(unreferenced) - len(old), deleted=len(old)
    )


async def find_named_digests(tx: Transaction, namespace: str) -> set[bytes]:
    """Digests of blobs that are referenced inside documents, where SQL cannot find them: checkpoints, attachment
    addresses, and the messages of requests to models."""
    digests: set[bytes] = set()
    for document, states in await tx.rows("list_checkpoints", namespace=namespace):
        digests |= blobs_of(document, states)
    for (uri,) in await tx.rows("list_attachment_uris", namespace=namespace):
        if uri.startswith(_BY_CONTENT):
            try:
                digests.add(bytes.fromhex(uri.removeprefix(_BY_CONTENT)))
            except ValueError:
                continue
    for (body,) in await tx.rows("list_model_requests", namespace=namespace):
        digests |= messages_of(body)
    return digests


def messages_of(body: bytes | None) -> set[bytes]:
    """The digests of the messages of a request to a model; empty if the request is erased."""
    must_be_open(body, "a request to a model")
    listed = canonical.decode_stored(body).get("messages", []) if body else []
    return {bytes.fromhex(digest) for digest in listed if len(digest) == 64}
