"""S21: whatever a model, a tool or a person says is text. Nothing of it is run, nothing of it is fetched, nothing of it
becomes part of the page; and what cannot be seen in it is shown."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import quote

import pytest

from tests.page.browser_page import Watched
from tests.page.conftest import Elsewhere
from tests.page.hostile import COUNT, corpus, named
from tests.page.hostile_store import EACH, SESSION, carrier, poison, step_key
from tests.page.processes import Town

pytestmark = pytest.mark.timeout(170)

ALIEN = """() => {
  const here = location.origin;
  const all = (what) => [...document.querySelectorAll(what)];
  const ours = (one) => String(one.src || (one.href?.baseVal ?? one.href) || one.action || "");
  return [
    ...all("iframe, object, embed, base, video, audio, marquee, math, foreignObject, template, style"),
    ...all("script, img, link, image, use, source").filter((one) => !ours(one).startsWith(`${here}/static/`)),
    ...all("a[href], form[action], area").filter((one) => !ours(one).startsWith(`${here}/`)),
    ...all("*").filter((one) => [...one.attributes].some((each) => each.name.startsWith("on"))),
  ].map((one) => one.outerHTML.slice(0, 200));
}"""
"""Elements that no page of ours has, and addresses that lead elsewhere."""

UNSEEN = r"""() => {
  const unseen = /[\u202a-\u202e\u2066-\u2069\u200b-\u200f\u2060\u061c\u00ad\ufeff\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]/;
  const found = [];
  const walk = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walk.nextNode()) {
    const { data, parentElement: around } = walk.currentNode;
    const at = data.search(unseen);
    if (at >= 0) found.push(`<${around.tagName} class=${around.className}> ${JSON.stringify(data.slice(0, at + 9))}`);
  }
  return found;
}"""
"""Text in which something stands that a reader cannot see, or that turns what they see around."""

GO = """address => {
  history.pushState(null, "", address);
  dispatchEvent(new PopStateEvent("popstate"));
}"""


class Beacon:
    """Somebody who listens on loopback, and keeps what is asked."""

    def __init__(self) -> None:
        asked: list[str] = []

        class Listening(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                if self.path != "/":
                    asked.append(self.path)
                self.send_response(200)
                self.send_header("Content-Type", "text/html")
                self.end_headers()

            do_HEAD = do_POST = do_GET  # noqa: N815 - http.server's names

            def log_message(self, *_: Any) -> None:
                pass

        self.asked = asked
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Listening)
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        self._thread = threading.Thread(target=self._server.serve_forever)
        self._thread.start()

    def close(self) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()


@pytest.fixture
def beacon() -> Iterator[Beacon]:
    one = Beacon()
    yield one
    one.close()


class Visitor:
    """Somebody who looks at everything; `hits` are what was run behind their back."""

    def __init__(self, watched: Watched, town: Town) -> None:
        self.page, self.town = watched.page, town
        self.hits: list[Any] = []
        self.alien: list[str] = []
        self.unseen: list[str] = []
        self.page.context.expose_function("__hit", lambda *said: self.hits.append(said))
        self.page.on("dialog", self._asked)
        for status in ("404", "422"):  # jobs that are not there, or could not be, are asked for on purpose
            watched.forgive(f"status of {status}")
        self.page.goto(town.link)
        self.page.get_by_text("sign out").wait_for()

    def _asked(self, dialog: Any) -> None:
        self.hits.append(dialog.message)
        dialog.dismiss()

    def go(self, *path: str, wait: str = "h1", **query: str) -> None:
        """At this address, which the page itself would have made; then everything that can be opened is."""
        address = "/" + "/".join(quote(part, safe="") for part in path)
        if query:
            address += "?" + "&".join(f"{name}={quote(value, safe='')}" for name, value in query.items())
        self.page.evaluate(GO, address)
        self.page.locator(wait).first.wait_for()
        self.look()

    def settle(self) -> None:
        """What has just been answered is on the screen, and looked at."""
        self.page.evaluate("() => new Promise((done) => requestAnimationFrame(() => setTimeout(done, 50)))")
        self.look()

    def look(self) -> None:
        self.page.evaluate(
            "() => document.querySelectorAll('details').forEach((one) => { one.open = true; })"
        )
        self.alien += [f"{self.page.url}: {one}" for one in self.page.evaluate(ALIEN)]
        self.unseen += [f"{self.page.url}: {one}" for one in self.page.evaluate(UNSEEN)]


FRAMES = """texts => {
  for (const text of texts) {
    const frame = document.createElement("iframe");
    frame.srcdoc = text;
    document.body.append(frame);
  }
}"""


def test_the_corpus_bites(browser: Any, beacon: Beacon) -> None:
    """A page that trusts what it shows runs and fetches it: so what follows can fail."""
    context = browser.new_context()
    hits: set[Any] = set()
    context.expose_function("__hit", lambda *said: hits.add(said))
    page = context.new_page()
    page.on("dialog", lambda dialog: dialog.dismiss())
    payloads = corpus(beacon.url)
    assert len(set(payloads)) == COUNT == 200
    page.goto(beacon.url)
    page.evaluate(FRAMES, [text[:2000] for text in payloads])
    while len(hits) < 50 or len(set(beacon.asked)) < 20:  # or the time of the test is over
        page.evaluate("() => new Promise(requestAnimationFrame)")
    context.close()


def test_what_goes_wrong_is_noticed(town: Town, watched: Watched, beacon: Beacon) -> None:
    """Each of the eyes sees what it is for, put into the page by force: so their silence means something."""
    visitor, page = Visitor(watched, town), watched.page
    assert not watched.unforgiven()
    page.evaluate(
        """url => {
          const put = (text) => document.body.insertAdjacentHTML("beforeend", text);
          put("<a href='javascript:x()'>press</a><p>a\u202eb</p>");
          put("<img src=x onerror=__hit(7)><iframe src='" + url + "'></iframe>");
          document.body.setAttribute("onclick", "x()");
          __hit(8);
          console.error("said aloud");
          setTimeout(() => { throw new Error("not caught"); });
          return fetch(url).catch(() => null);
        }""",
        f"{beacon.url}/seen",
    )
    visitor.settle()
    troubles, page_alien = "\n".join(watched.troubles), "\n".join(visitor.alien)
    for part in (
        "said aloud",
        "not caught",
        "policy: connect-src",
        "policy: script-src",
        "policy: frame-src",
    ):
        assert part in troubles, part
    for part in ("javascript:x()", "<iframe", "onerror", "onclick"):
        assert part in page_alien, part
    assert "\u202e" in visitor.unseen[0]
    assert visitor.hits == [(8,)], "what is called is counted; what the policy forbids is not run"
    assert beacon.asked == []
    watched.troubles.clear()


def test_s21_nothing_that_is_shown_is_run_or_fetched(
    town: Town, watched: Watched, elsewhere: Elsewhere, beacon: Beacon
) -> None:
    payloads = corpus(beacon.url)
    elsewhere(poison(town.where, payloads))
    visitor = Visitor(watched, town)
    visit_lists(visitor)
    visit_jobs(visitor, payloads)
    visit_talks(visitor, payloads)
    for nth, text in enumerate(payloads):  # what is not there is told by its name, too
        visitor.page.evaluate(GO, "/jobs/" + quote(text[:500], safe="", errors="replace"))
        if nth % 10 == 0:
            visitor.settle()
    assert visitor.hits == [], "0 executions"
    assert beacon.asked == [], "0 requests to anybody else"
    assert not visitor.alien, "\n".join(visitor.alien[:20])
    assert not visitor.unseen, "\n".join(sorted(set(visitor.unseen))[:20])


def visit_lists(visitor: Visitor) -> None:
    page = visitor.page
    visitor.go(wait=".need")
    for name, address in (("jobs", "/api/jobs?"), ("sessions", "/api/sessions?")):
        visitor.go(name, wait=f"main a[href^='/{name}/']")
        older = page.get_by_role("button", name="Older")
        while older.count():
            with page.expect_response(
                lambda answer, part=address: part in answer.url and "cursor=" in answer.url
            ):
                older.first.click()
            visitor.settle()
    for name, address in (("agents", "/api/workers"), ("dashboard", "/api/time-series")):
        with page.expect_response(lambda answer, part=address: part in answer.url):
            visitor.go(name)
        visitor.settle()


def visit_jobs(visitor: Visitor, payloads: list[str]) -> None:
    for first in range(0, len(payloads), EACH):
        name = carrier(first)
        visitor.go("jobs", name, wait="nav[aria-label='Views of the job']")
        for view in ("table", "journal", "given"):
            visitor.go("jobs", name, wait="nav[aria-label='Views of the job']", view=view)
        for nth in range(first, first + EACH):
            visitor.go("jobs", name, wait=".life", step=step_key(nth, "tool" if nth % 2 else "ask"))
    for nth, text in list(enumerate(payloads))[::7]:
        visitor.go("jobs", f"job {named(text, nth)}", wait="nav[aria-label='Views of the job']", view="given")
    for nth in range(0, len(payloads), 12):
        visitor.go("jobs", f"need {nth:03}", wait="nav[aria-label='Views of the job']")


def visit_talks(visitor: Visitor, payloads: list[str]) -> None:
    with visitor.page.expect_response(lambda answer: "/attachments" in answer.url):
        visitor.go("sessions", SESSION)
    visitor.settle()
    for nth, text in list(enumerate(payloads))[::20]:
        visitor.go("sessions", f"talk {named(text, nth)}")
