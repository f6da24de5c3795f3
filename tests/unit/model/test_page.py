"""Pages and their cursors."""

from __future__ import annotations

import base64

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.errors import InvalidPayload, TooLarge
from holdfast.model import canonical
from holdfast.model.limits import CURSOR_LENGTH_MAX, INTEGER_MAX
from holdfast.model.page import Key, Page, decode_cursor, encode_cursor

keys = st.lists(st.none() | st.integers(-INTEGER_MAX, INTEGER_MAX) | st.text(max_size=40), max_size=4)


@given(keys)
def test_a_cursor_gives_its_keys_back(drawn: list[Key]) -> None:
    """Make a cursor of random keys; it must survive a URL and return the same keys."""
    text = encode_cursor("jobs", *drawn)
    assert decode_cursor("jobs", text, keys=len(drawn)) == tuple(drawn)
    assert all(char.isascii() and (char.isalnum() or char in "-_") for char in text)


@given(keys, st.data())
def test_a_mangled_cursor_is_refused(drawn: list[Key], chance: st.DataObject) -> None:
    """Cut one, or change or add a character, at a random place: never other keys, always a typed error."""
    text = encode_cursor("jobs", *drawn)
    place = chance.draw(st.integers(0, len(text) - 1))
    letter = chance.draw(st.sampled_from("AZaz09-_=!é \n"))
    changed, longer = text[:place] + letter + text[place + 1 :], text[:place] + letter + text[place:]
    for mangled in (text[:place], changed, longer, text + letter):
        if mangled != text:
            with pytest.raises(InvalidPayload) as caught:
                decode_cursor("jobs", mangled, keys=len(drawn))
            assert "previous page" in caught.value.hint


def test_a_cursor_of_another_listing_is_refused() -> None:
    """Use a cursor of the session listing for jobs."""
    with pytest.raises(InvalidPayload, match="listing of sessions, not of jobs"):
        decode_cursor("jobs", encode_cursor("sessions", 1), keys=1)


@pytest.mark.parametrize("body", [b"[]", b"5", b"{}", b"null", b'["jobs"]', b'["jobs",1,2]', b"[1,1]", b""])
def test_a_cursor_that_somebody_made_up_is_refused(body: bytes) -> None:
    """The check in a cursor is no secret: put it before bytes that no listing has written."""
    text = base64.urlsafe_b64encode(canonical.digest(body)[:6] + body).rstrip(b"=").decode()
    with pytest.raises(InvalidPayload):
        decode_cursor("jobs", text, keys=1)


def test_cursors_are_bounded_both_ways() -> None:
    """Make one that is too long, and send one."""
    assert decode_cursor("jobs", encode_cursor("jobs", *["\U0001f600" * 200] * 3), keys=3)
    with pytest.raises(TooLarge):
        encode_cursor("jobs", "x" * CURSOR_LENGTH_MAX)
    with pytest.raises(InvalidPayload, match="it is not valid"):
        decode_cursor("jobs", "A" * (CURSOR_LENGTH_MAX + 1), keys=1)


def test_a_page_reads_like_its_rows() -> None:
    """Iterate and measure a page."""
    page = Page((1, 2, 3), next="c")
    assert list(page) == [1, 2, 3]
    assert len(page) == 3
    assert Page(()).next is None


def test_a_cursor_has_one_spelling() -> None:
    """Change only the bits of the last character that decode to nothing."""
    text = next(text for n in range(10) if len(text := encode_cursor("jobs", "x" * n)) % 4 == 2)
    alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
    twin = text[:-1] + alphabet[alphabet.index(text[-1]) + 1]
    with pytest.raises(InvalidPayload, match="damaged"):
        decode_cursor("jobs", twin, keys=1)
