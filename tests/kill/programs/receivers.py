"""Receivers: the outside world of a generated program, with logs of its own.

Every tool of a program sends a request here. A request that has left its process comes to its end, whatever becomes of
the process: the effect happens when it arrives, and its answer is on the way back afterwards. The verdict about a play
rests on these logs and on the program's output, never on a counter of Holdfast.

    look, compute   reads: every start is logged
    llm             a model; asking it is a read
    pay             idempotent: a key that is known already is answered from the log
    book            verifiable: `find` answers a probe from the log
    mail            unsafe: every arrival counts
    wire            idempotent, and a person must agree first
    poll, total     reads, a tool and a step, with retries declared; so are those below
    charge          idempotent
    hire            verifiable
    fax             unsafe; a connection that is refused says that nothing was sent
    crunch          no tool: a plain function for threads; it may run again in every attempt
"""

from __future__ import annotations

import asyncio
import re
import zlib
from collections import Counter
from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Literal

Effect = Literal["read_only", "idempotent", "verifiable", "unsafe"]

EFFECTS: Final[dict[str, Effect]] = {
    "look": "read_only",
    "compute": "read_only",
    "pay": "idempotent",
    "book": "verifiable",
    "mail": "unsafe",
    "wire": "idempotent",
    "poll": "read_only",
    "total": "read_only",
    "charge": "idempotent",
    "hire": "verifiable",
    "fax": "unsafe",
}
"""Tool → its effect class."""

READS: Final = frozenset({"llm", *(tool for tool, effect in EFFECTS.items() if effect == "read_only")})
LATENCIES: Final = (0.0, 0.0, 0.1, 0.5, 1.0, 2.0)
DELAYS: Final = (0.0, 0.0, 2.0, 40.0, 90.0, 150.0)
"""Latencies of a world in which things stand still for as long as a takeover takes."""
BAD: Final = "bad"
"""A read whose label begins like this raises LookupError."""

SLOW: Final = "slow"
"""A read whose label begins like this is given up by the program, perhaps before it starts."""

REFUSED: Final = "refused"
"""An effect whose label begins like this is refused: the receiver does nothing."""

ATTEMPTS: Final = {"poll": 4, "total": 4, "charge": 4, "hire": 3, "fax": 4}
"""Tools that are retried, and how often each is called at most."""

HOLDS: Final = "holds"
"""A call whose label begins like this blocks the loop after its answer has come, the first time."""

_DEADLY: Final = re.compile(r"(?:(crashes|killed)(\d)x|(poison|devours))_(before|after)")
"""Calls that end the process in which they run: before they send a request, or once its answer has come. So many times,
or always. crashes, poison: by a fault of its own; killed, devours: by a signal that others send."""

SEGMENTATION_FAULT: Final = -11
KILLED: Final = -9

DEATHS: Final = {"poison": 3, "devours": 5}
"""Processes that a call which always ends its process costs until its job is a dead letter: two among other jobs, and
alone one, or three that others may have ended."""

_FAILING: Final = re.compile(r"(fails|loses|vague|down|denied)(?:(\d)x)?")
"""How requests with a label fail. fails: so often before they arrive; fax says then that nothing was sent. vague: so
often before they arrive, and nothing is said about it. loses: so often after they have arrived. down: always. denied:
always, with an error that is not retried."""


def is_deadly(source: str) -> bool:
    """Whether a call of this program, or with this label, ends its process."""
    return _DEADLY.search(source) is not None


def find_poison(label: str) -> str | None:
    """How a call ends its process every time; None, if it does not."""
    found = _DEADLY.match(label)
    return None if found is None else found[3]


def dies_before(label: str) -> bool:
    """Whether a process that the call ends never sends its request."""
    found = _DEADLY.match(label)
    return found is not None and found[4] == "before"


def is_failing(label: str) -> bool:
    """Whether requests with this label fail some times."""
    return _FAILING.match(label) is not None


Send = Callable[[Coroutine[Any, Any, Any]], asyncio.Future[Any]]
"""Starts a request outside the process that sends it, which it outlives."""


@dataclass
class Request:
    """One request, from its start to its answer. `tick` orders it among everything that the world has seen."""

    tool: str
    label: str
    token: str
    key: str
    tick: int
    worker: str
    arrived: bool = False
    ended: bool = False
    result: str | None = None
    back: float = 0.0
    """How long its answer takes."""
    due: float = 0.0
    """When it arrives, or, once it has, when its answer is there."""


def answer_of(label: str) -> str:
    """The answer to every request with this label."""
    return f"{label}'"


def label_of(answer: Any) -> str | None:
    """The label whose answer this is; None, if it is no answer of a receiver."""
    return answer[:-1] if isinstance(answer, str) and answer.endswith("'") else None


def question_of(messages: Sequence[Mapping[str, Any]]) -> tuple[str, int]:
    """What a model is asked: the last words of the user, and how often the model has spoken before."""
    words = [one["content"] for one in messages if one["role"] == "user" and isinstance(one["content"], str)]
    return words[-1], sum(one["role"] == "assistant" for one in messages)


@dataclass
class Receivers:
    """All receivers of one play. `seed` and `latencies` decide when answers come, never what they are."""

    send: Send
    seed: int = 0
    latencies: tuple[float, ...] = LATENCIES
    refusal: type[Exception] = Exception
    """What a tool raises whose request is refused."""
    requests: list[Request] = field(default_factory=list)
    faults: list[str] = field(default_factory=list)
    under_way: int = 0
    changed: Callable[[], None] = lambda: None
    time: Callable[[], float] = lambda: 0.0
    ticks: int = 0
    events: int = 0
    """How often something has left a process, arrived, or been answered."""
    crunched: Counter[str] = field(default_factory=Counter)
    blocked: set[str] = field(default_factory=set)
    """Labels of calls that have blocked their loop."""
    deaths: list[tuple[str, str]] = field(default_factory=list)
    """Label of each call that has ended its process, and the name of the process."""

    def crunch(self, label: str) -> str:
        self.crunched[label] += 1
        return answer_of(label)

    def log_question(self, messages: Sequence[Mapping[str, Any]], worker: str) -> str:
        """A model was asked; the label of the question."""
        words, turn = question_of(messages)
        label = f"{words}/{turn}"
        self.requests.append(Request("llm", label, "", "", self.tick(), worker, arrived=True, ended=True))
        self.events += 1
        return label

    def tick(self) -> int:
        self.ticks += 1
        return self.ticks

    def find_death(self, label: str, moment: str) -> int | None:
        """The status with which a process that makes this call ends now; None, if it goes on."""
        found = _DEADLY.match(label)
        if found is None or found[4] != moment:
            return None
        if found[2] is not None and sum(dead == label for dead, _ in self.deaths) >= int(found[2]):
            return None
        return SEGMENTATION_FAULT if found[1] == "crashes" or found[3] == "poison" else KILLED

    async def request(
        self, tool: str, label: str, token: str = "", key: str = "", *, seconds: float = 0.0, worker: str = ""
    ) -> str:
        """Send a request and wait for its answer."""
        request = Request(tool, label, token, key, self.tick(), worker)
        self.requests.append(request)
        self.events += 1
        there, back = self.latencies_of(tool, label)
        request.due, request.back = self.time() + there, back + seconds
        if tool in READS:
            return await self._serve(request, there)
        self.under_way += 1
        # Shielded: whoever stops waiting does not call a request back.
        return await asyncio.shield(self.send(self._send(request, there)))

    def go_on(self) -> None:
        """Effects that are under way come to their end, without anybody who waits for it."""
        for request in self.requests:
            if not (request.ended or request.tool in READS):
                self.under_way += 1
                sent = self.send(self._send(request, request.due - self.time()))
                sent.add_done_callback(lambda sent: sent.cancelled() or sent.exception())

    async def _send(self, request: Request, wait: float) -> str:
        try:
            return await self._serve(request, wait)
        finally:
            self.under_way -= 1
            self.changed()

    async def _serve(self, request: Request, wait: float) -> str:
        """The request after this wait: it arrives, unless it has already, and is answered."""
        try:
            await _pass(wait)
            if not request.arrived:
                if request.label.startswith(REFUSED):
                    raise self.refusal(request.label)
                self._fail(request, "down", "denied", "fails", "vague")
                self._arrive(request)
                request.due = self.time() + request.back
                await _pass(request.back)
            if request.tool in READS and request.label.startswith(BAD):
                raise LookupError(request.label)
            request.result = answer_of(request.label)
            self._fail(request, "loses")
            return request.result
        finally:
            request.ended = True
            self.events += 1

    def _fail(self, request: Request, *modes: str) -> None:
        """Raise what the label says, if it says one of these ways and this is one of the first requests with it."""
        found = _FAILING.match(request.label)
        if found is None or found[1] not in modes:
            return
        alike = [one for one in self.requests if (one.tool, one.label) == (request.tool, request.label)]
        if found[2] is not None and alike.index(request) >= int(found[2]):
            return
        if found[1] == "denied":
            raise PermissionError(request.label)
        is_refused = request.tool == "fax" and found[1] in {"down", "fails"}
        raise (ConnectionRefusedError if is_refused else ConnectionError)(request.label)

    def _arrive(self, request: Request) -> None:
        request.arrived = True
        self.events += 1
        if request.key:
            for other in self.requests:
                if other.key == request.key and (other.label, other.token) != (request.label, request.token):
                    self.faults.append(
                        f"one key, two calls: {other.tool}({other.label!r}, {other.token!r}) "
                        f"and {request.tool}({request.label!r}, {request.token!r})"
                    )

    def latencies_of(self, tool: str, label: str) -> tuple[float, float]:
        """How long a request takes to arrive, and its answer to come back."""
        nth = sum((one.tool, one.label) == (tool, label) for one in self.requests)
        drawn = zlib.crc32(f"{self.seed}/{tool}/{label}/{nth}".encode())
        return self.latencies[drawn % 6], self.latencies[drawn // 6 % 6]

    # ── what has happened ─────────────────────────────────────────────────────────────────────────

    def find(self, key: str) -> Request | None:
        """The request with this key that arrived."""
        return next((one for one in self.requests if one.key == key and one.arrived), None)

    def done(self, effect: Effect) -> Counter[tuple[str, str]]:
        """Tool and label of everything that happened, as often as it did. An idempotent call happens once per key."""
        arrived = [one for one in self.requests if one.arrived and EFFECTS.get(one.tool) == effect]
        if effect == "idempotent" and any(one.key for one in arrived):
            arrived = list({one.key or str(one.tick): one for one in arrived}.values())
        return Counter((one.tool, one.label) for one in arrived)

    def reads(self) -> Counter[str]:
        """How often each read was started, by label; without those that are given up, or made again as they fail."""
        return Counter(
            one.label
            for one in self.requests
            if one.tool in READS and not (one.label.startswith((SLOW, BAD)) or is_failing(one.label))
        )

    def sent(self) -> Counter[tuple[str, str]]:
        """How often each request that fails some times was sent under one key. A person who says that a call did not
        happen has it made under another, with as many attempts."""
        by_key = Counter((one.tool, one.label, one.key) for one in self.requests if is_failing(one.label))
        sent: Counter[tuple[str, str]] = Counter()
        for (tool, label, _), times in by_key.items():
            sent[tool, label] = max(sent[tool, label], times)
        return sent


async def _pass(seconds: float) -> None:
    """So much virtual time passes."""
    if seconds > 0:
        await asyncio.sleep(seconds)
