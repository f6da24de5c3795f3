"""The page: what people open in a browser. Its files are made by `make page`, carried by the wheel, and public.

    /static/page.3f2a91.js      a file; its name says its content, so whoever has it never asks again
    /, /jobs/a%2Fb, …           whatever is no part of the API: the one document, which reads its own address

Nothing of anybody's work is in these files. The page asks the API for that, with the key that its reader gave it, in a
header; there are no cookies. What is asked for is looked up among the names of the folder, and never made into a path.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

import msgspec
from starlette.responses import Response

from holdfast.errors import NotFound
from holdfast.server import etags

STATIC: Final = Path(__file__).with_name("static")
INDEX: Final = "index.html"
UNDER: Final = "/static/"

POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
    "font-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'"
)
"""What the page may load, and where it may send anything: here, and nowhere else."""

_TYPES: Final = {
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".json": "application/json",
    ".map": "application/json",
    ".svg": "image/svg+xml",
    ".png": "image/png",
    ".ico": "image/x-icon",
    ".woff2": "font/woff2",
    ".txt": "text/plain; charset=utf-8",
}
_FOR_GOOD: Final = "public, max-age=31536000, immutable"
_ASK_AGAIN: Final = "no-cache"
_UNBUILT: Final = (
    b"<!doctype html><html lang=en><meta charset=utf-8><title>Holdfast</title>"
    b"<p>The page is not built in this checkout: run <code>make page</code>, then load this again.</p></html>\n"
)
_OTHERS: Final = ("api", "health", "metrics")
"""What paths of the API begin with."""


class File(msgspec.Struct, frozen=True):
    """A file as it goes over the wire."""

    body: bytes
    media: str
    tag: str


class StaticPage:
    """The files of one build. A new build is noticed, so that whoever works on the page need not restart anything."""

    def __init__(self, folder: Path = STATIC) -> None:
        self._folder = folder
        self._built: tuple[int, int] | None = None
        self._files: dict[str, File] = {}

    def route(self, method: str, raw_path: bytes) -> str | None:
        """Which part of the page is asked for, as metrics call it; None if it is none of it."""
        path = raw_path.decode("latin-1")
        if method not in {"GET", "HEAD"} or path.removeprefix("/").partition("/")[0] in _OTHERS:
            return None
        return f"{UNDER}{{file}}" if path.startswith(UNDER) else "/"

    def answer(self, raw_path: bytes, if_none_match: str | None) -> Response:
        """The file, or the document for every path that is none."""
        path = raw_path.decode("latin-1")
        named = path.startswith(UNDER)
        files = self._known()
        file = files.get(path.removeprefix(UNDER) if named else INDEX)
        if file is None:
            msg = "the page does not have this file"
            raise NotFound(msg, hint="Reload the page: the server may have another version.")
        headers = {
            "ETag": file.tag,
            "Cache-Control": _FOR_GOOD if named else _ASK_AGAIN,
            "Content-Security-Policy": POLICY,
        }
        if etags.is_known(file.tag, if_none_match):
            return Response(status_code=304, headers=headers)
        return Response(file.body, headers=headers | {"Content-Type": file.media})

    def _known(self) -> dict[str, File]:
        try:
            built = (self._folder.stat().st_mtime_ns, (self._folder / INDEX).stat().st_mtime_ns)
        except OSError:
            self._built = None
            return {INDEX: _file(INDEX, _UNBUILT)}
        if built != self._built:
            self._files = _read(self._folder)
            self._built = built
        return self._files


def _read(folder: Path) -> dict[str, File]:
    return {path.name: _file(path.name, path.read_bytes()) for path in folder.iterdir() if path.is_file()}


def _file(name: str, body: bytes) -> File:
    media = _TYPES.get(Path(name).suffix, "application/octet-stream")
    return File(body, media, etags.of(body))
