"""Paths of the API, as a client sends them."""

from __future__ import annotations

from urllib.parse import quote

from holdfast.model.ids import check_name


def path(*parts: str) -> str:
    """A path of these parts, whatever is in them; dots alone would mean another place."""
    for part in parts:
        check_name(part, "id")
    return "/" + "/".join(quote(part, safe="").replace(".", "%2E") for part in parts)
