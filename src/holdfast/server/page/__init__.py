"""The web page. `make page` builds its files, the wheel includes them, and they are public.

    /static/page.3f2a91.js      a file; its name contains a hash of its content, so a browser caches it for good
    /, /jobs/a%2Fb, …           every path outside the API: the one document, which reads its own address

These files contain no data of any job. The page requests that from the API, with the key that its user entered, in a
header; there are no cookies. A requested name is looked up among the names of the folder, and never made into a path.
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
"""The page may load resources from here and send requests here, and nowhere else."""

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
"""The first parts of API paths."""


class File(msgspec.Struct, frozen=True):
    """A file as it is sent."""

    body: bytes
    media: str
    tag: str


class StaticPage:
    """The files of one build. A new build is detected, so that a developer of the page need not restart the server."""

    def __init__(self, folder: Path = STATIC) -> None:
        self._folder = folder
        self._built: tuple[int, int] | None = None
        self._files: dict[str, File] = {}

    def route(self, method: str, raw_path: bytes) -> str | None:
        """The route of the page for metrics; None if the path is not part of the page."""
        path = raw_path.decode("latin-1")
        if method not in {"GET", "HEAD"} or path.removeprefix("/").partition("/")[0] in _OTHERS:
            return None
        return f"{UNDER}{{file}}" if path.startswith(UNDER) else "/"

    def answer(self, raw_path: bytes, if_none_match: str | None) -> Response:
        """The file, or the document for every other path."""
        path = raw_path.decode("latin-1")
        is_file = path.startswith(UNDER)
        files = self._known()
        file = files.get(path.removeprefix(UNDER) if is_file else INDEX)
        if file is None:
            msg = "the page does not have this file"
            raise NotFound(msg, hint="Reload the page: the server may have another version.")
        headers = {
            "ETag": file.tag,
            "Cache-Control": _FOR_GOOD if is_file else _ASK_AGAIN,
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
