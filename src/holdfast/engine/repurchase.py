"""Repurchase: a request to a model whose answer is on record is about to be bought again, because it differs.

The identity of a request is its digest. If the code makes a request under a step key that has an answer to another
request, something in it is not the same in every run: the time, a random id, the order of a set. The answer would be
bought again at every resume, so it is said: which fields differ, as an event and in the log.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final

from holdfast.errors import HoldfastError
from holdfast.model import canonical
from holdfast.model.limits import BLOB_BYTES_MAX
from holdfast.model.replay_history import Recorded

if TYPE_CHECKING:
    from holdfast.engine.execution import Execution
    from holdfast.engine.model_requests import Request

FIELDS_MAX: Final = 8
FIELD_LENGTH_MAX: Final = 120

log = logging.getLogger("holdfast.models")


async def find_differences(drive: Execution, request: Request, recorded: Recorded) -> tuple[str, ...]:
    """The fields in which a request differs from the recorded one; none, if that cannot be read any more."""
    found = ["model"] if recorded.name != request.model else []
    parts, is_continued = drive.history.request_parts(recorded)
    if not parts or (is_continued and not request.after):
        return tuple(found)  # it begins before the last commit
    settings, *messages = parts
    if settings != canonical.hex_digest(request.params):
        paths = _compare(await _load(drive, settings), canonical.decode_stored(request.params), "")
        found += [path for path in paths if _top_field(path) not in {*request.ignored, "model"}]
    if request.after:  # its messages are the session's, and not in this journal
        return _shorten(found or [request.messages_field])
    if len(messages) != len(request.messages):
        found.append(f"{request.messages_field} ({len(messages)} recorded, {len(request.messages)} now)")
    for index, (digest, body) in enumerate(zip(messages, request.messages, strict=False)):
        if len(found) < FIELDS_MAX and digest != canonical.hex_digest(body):
            place = f"{request.messages_field}[{index}]"
            found += _compare(await _load(drive, digest), canonical.decode_stored(body), place)
    return _shorten(found)


def _shorten(fields: list[str]) -> tuple[str, ...]:
    return tuple(field[:FIELD_LENGTH_MAX] for field in fields[:FIELDS_MAX])


def _top_field(path: str) -> str:
    return path.partition(".")[0].partition("[")[0]


async def _load(drive: Execution, digest: str) -> Any:
    """A part of a recorded request; None, if it is not there any more."""
    try:
        assert drive.store is not None
        data = await drive.store.blobs.get(digest, namespace=drive.owner.namespace)
        return canonical.decode(data, bytes_max=BLOB_BYTES_MAX)
    except (HoldfastError, AssertionError):
        return None


def _compare(recorded: Any, now: Any, path: str) -> Iterator[str]:
    """The places in which two JSON values differ."""
    if isinstance(recorded, dict) and isinstance(now, dict):
        for key in sorted(recorded.keys() | now.keys()):
            yield from _compare(recorded.get(key), now.get(key), f"{path}.{key}" if path else key)
    elif isinstance(recorded, list) and isinstance(now, list) and len(recorded) == len(now):
        for index, (one, other) in enumerate(zip(recorded, now, strict=True)):
            yield from _compare(one, other, f"{path}[{index}]")
    elif recorded != now and path:
        yield path


def warn(drive: Execution, request: Request, step_key: str, fields: tuple[str, ...]) -> None:
    """Says in the log that a recorded answer is bought again, and what to do."""
    log.warning(
        "job %s buys a recorded answer again: the request %s to %s differs in %s. Make it the same in every run"
        " (hf.now, hf.uuid, a step), or leave the field out of its identity: hf.wrap(client, ignore=(…,)).",
        drive.owner.job_id,
        step_key,
        request.model,
        ", ".join(fields) or "its contents",
    )
