"""A page of a real browser on which nothing may go wrong: what it complains of, and where it wants to go, is kept."""

from __future__ import annotations

from typing import Any

VIOLATIONS = """
document.addEventListener("securitypolicyviolation", (event) =>
  console.error(`policy: ${event.violatedDirective} ${event.blockedURI}`));
"""


class Watched:
    """`troubles` are console errors and warnings, uncaught errors, violated policies and requests that leave `origin`.

    A test that brings a refusal about says so: `forgive("401")` takes what the browser logs about it.
    """

    def __init__(self, context: Any, origin: str) -> None:
        self.origin = origin
        self.troubles: list[str] = []
        self._forgiven: list[str] = []
        context.add_init_script(VIOLATIONS)
        context.on("request", self._asked)
        context.on("console", self._said)
        context.on("weberror", lambda error: self.troubles.append(f"uncaught: {error.error}"))
        self.page = context.new_page()

    def forgive(self, part: str) -> None:
        self._forgiven.append(part)

    def unforgiven(self) -> list[str]:
        return [one for one in self.troubles if not any(part in one for part in self._forgiven)]

    def _asked(self, request: Any) -> None:
        url = request.url
        if not url.startswith((f"{self.origin}/", "data:", "blob:")):
            self.troubles.append(f"leaves: {url}")

    def _said(self, message: Any) -> None:
        if message.type in {"error", "warning", "assert"}:
            self.troubles.append(f"{message.type}: {message.text} ({message.location.get('url', '')})")
