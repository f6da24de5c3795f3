"""What a person in front of the page does: look for something, press a button, answer the question behind it."""

from __future__ import annotations

import re
from typing import Any


def see(page: Any, text: str | re.Pattern[str]) -> Any:
    """What shows this text, once it does."""
    found = page.get_by_text(text).first
    found.wait_for()
    return found


def speak(page: Any, **given: str) -> None:
    """The dialog that is open is answered, with a name where one is asked for, and confirmed. `why` is the reason;
    anything else is a field by its name."""
    dialog = page.get_by_role("dialog")
    for name, value in given.items():
        field = dialog.locator(f"#field-{name}") if name != "why" else dialog.get_by_label("Reason")
        if field.evaluate("one => one.tagName") == "SELECT":
            field.select_option(value)
        else:
            field.fill(value)
    name = dialog.get_by_label("Your name")
    if name.count():
        name.fill("Ada")
    dialog.locator("button[type=submit]").click()
    dialog.wait_for(state="detached")


def need(page: Any, job_id: str) -> Any:
    """The card of what this job needs, on the first page, once it is there."""
    card = page.locator("article.need").filter(has=page.locator(f'a[href="/jobs/{job_id}"]'))
    card.wait_for()
    return card
