"""Oracle: a generated program under plain asyncio, with plain functions, in virtual time.

Nothing here imports Holdfast. `hf` and `app` in a program's source are bound to the stand-ins below, and its tools to
functions that only send requests to the receivers. Run with several latencies, a program must come to the same outcome
every time; otherwise its outcome depends on luck, and it says nothing about a durable engine.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextlib
import contextvars
import datetime as dt
import json
import random
import re
import selectors
import uuid
from collections import Counter
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any, Final

from tests.kill.programs.receivers import (
    ATTEMPTS,
    DELAYS,
    EFFECTS,
    LATENCIES,
    Effect,
    Receivers,
    answer_of,
    dies_before,
    find_poison,
    question_of,
)

PASSES_MAX: Final = 200_000
SPINS_MAX: Final = 100
"""So many passes without a wait, and the clock moves on, faster and faster: code that polls takes time too."""

SPIN_S: Final = 0.01
THREAD_S: Final = 0.7
MODEL_S: Final = 0.7
"""How long a thread takes, and a model, in virtual time."""

BUY: Final = "buy"

_UNITS: Final = {"s": 1, "m": 60, "h": 3600, "d": 86400}


class Ambiguous(Exception):
    """The outcome of a program depends on its timing: it is no test."""


class Selector(selectors.SelectSelector):
    """Moves the clock instead of waiting, and a little whenever the loop only spins."""

    def __init__(self) -> None:
        super().__init__()
        self.now = 0.0
        self.spins = 0
        self.passes = 0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        self.passes += 1
        if timeout is None:
            raise Ambiguous("it waits for something that never comes")
        if self.passes > PASSES_MAX:
            raise Ambiguous("it never comes to an end")
        self.spins = 0 if timeout > 0 else self.spins + 1
        self.now += max(timeout, 0.0) if self.spins <= SPINS_MAX else SPIN_S * (self.spins - SPINS_MAX)
        return []


class VirtualLoop(asyncio.SelectorEventLoop):
    """Time is a number, and threads are not needed: what runs in one is run a moment later."""

    def __init__(self) -> None:
        self._clock = Selector()
        super().__init__(self._clock)
        self.set_default_executor(VirtualExecutor(self.call_later))

    def time(self) -> float:
        return self._clock.now


class VirtualExecutor(concurrent.futures.ThreadPoolExecutor):
    """Runs everything on the loop itself, after some virtual time."""

    def __init__(self, call_later: Callable[..., object]) -> None:
        super().__init__(1)
        self._call_later = call_later

    def submit(self, function: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
        future: concurrent.futures.Future[Any] = concurrent.futures.Future()

        def run() -> None:
            if not future.set_running_or_notify_cancel():
                return
            try:
                future.set_result(function(*args, **kwargs))
            except Exception as error:
                future.set_exception(error)

        self._call_later(THREAD_S, run)
        return future


@dataclass
class Outcome:
    """What a program did: its output or the type of the error that left it, and what the receivers saw."""

    output: Any
    error: str | None
    done: dict[Effect, Counter[tuple[str, str]]]
    reads: Counter[str]
    crunched: Counter[str]
    sent: Counter[tuple[str, str]]
    """How often each request that fails some times was sent."""
    seconds: float = field(compare=False)
    """How long it took, in virtual time."""
    beside: Any = None
    """The output of the job beside it, if there is one."""

    @property
    def calls(self) -> int:
        return self.reads.total() + sum(done.total() for done in self.done.values())


class Death(BaseException):
    """The process in which the program runs ends, every time."""


class Refused(Exception):
    """`hf.Refused` for plain asyncio."""


class Plain:
    """`hf` for plain asyncio."""

    Refused = Refused

    def __init__(self, loop: VirtualLoop, signals: dict[str, float], seed: int) -> None:
        self._loop = loop
        self._signals = signals
        self._chance = random.Random(seed)

    async def sleep(self, duration: str | float) -> None:
        await asyncio.sleep(seconds_of(duration))

    async def wait(self, name: str, *, timeout: str | float | None = None) -> Any:
        """The signal of this name comes at the time that the program declares for it, or never."""
        left = None if name not in self._signals else max(0.0, self._signals[name] - self._loop.time())
        limit = None if timeout is None else seconds_of(timeout)
        if limit is not None and (left is None or limit < left):
            await asyncio.sleep(limit)
            raise TimeoutError
        if left is None:
            await self._loop.create_future()
        await asyncio.sleep(left or 0.0)
        return name

    async def ask(self, question: str, *, timeout: str | float | None = None) -> bool:
        """Questions are answered with yes after a while, those that begin with "never" are not."""
        if question.startswith("never"):
            await asyncio.sleep(10**9 if timeout is None else seconds_of(timeout))
            raise TimeoutError
        await asyncio.sleep(1.0)
        return True

    async def spawn(self, agent: Callable[..., Coroutine[Any, Any, Any]], *args: Any) -> Any:
        return await self._loop.create_task(agent(*args))

    async def checkpoint(self, state: Any) -> int:
        return 1

    async def restore(self, default: Any) -> Any:
        return default

    def now(self) -> dt.datetime:
        return dt.datetime.fromtimestamp(self._loop.time(), dt.UTC)

    def uuid(self) -> uuid.UUID:
        return uuid.UUID(int=self._chance.getrandbits(128), version=4)

    def random(self) -> float:
        return self._chance.random()

    def user(self, text: str) -> dict[str, Any]:
        return {"role": "user", "content": text}

    async def run_tools(self, reply: Any, tools: Sequence[Any]) -> dict[str, Any]:
        by_name = {tool.__name__: tool for tool in tools}
        results = await asyncio.gather(*(by_name[name](**args) for name, args in reply.calls))
        return {"role": "user", "content": list(results)}

    @contextlib.asynccontextmanager
    async def scope(self, name: str) -> AsyncIterator[None]:
        yield


class PlainModel:
    """`llm` for plain asyncio: it repeats what it is asked; asked to buy something, it wants two tools first."""

    def __init__(self, receivers: Receivers) -> None:
        self._receivers = receivers

    async def ask(self, messages: list[dict[str, Any]], tools: Sequence[Any] = ()) -> Any:
        label = self._receivers.log_question(messages, "")
        await asyncio.sleep(MODEL_S)
        words, turn = question_of(messages)
        calls = []
        if words.startswith(BUY) and turn == 0:
            calls = [("pay", {"label": words}), ("look", {"label": words})]
        message = {"role": "assistant", "content": [answer_of(label)]}
        return SimpleNamespace(text=answer_of(label), calls=calls, message=message)


@dataclass
class PlainTurn:
    """A turn of a session for plain asyncio: every message is a turn of its own."""

    inputs: list[Any]
    state: Any

    async def poll(self) -> list[Any]:
        return []


async def _take_turns(main: Callable[[Any], Coroutine[Any, Any, Any]], messages: Mapping[str, Any]) -> Any:
    """One turn after the other; the state after the last."""
    state = None
    for words, (at, _when) in messages.items():
        await asyncio.sleep(max(0.0, at - asyncio.get_running_loop().time()))
        turn = PlainTurn([SimpleNamespace(payload={"content": words})], state)
        await main(turn)
        state = turn.state
    return state


def seconds_of(duration: str | float) -> float:
    """A duration as programs write it: a number of seconds, or "3d", "90s"."""
    if not isinstance(duration, str):
        return duration
    found = re.fullmatch(r"(\d+)([smhd])", duration)
    assert found is not None, f"{duration!r} is no duration of a generated program"
    return int(found[1]) * _UNITS[found[2]]


def run(source: str, seed: int = 0, *, delayed: bool = False) -> Outcome:
    """Run the program's `main` once, with latencies that the seed decides, or `delayed` as if by takeovers."""
    loop = VirtualLoop()
    receivers = Receivers(loop.create_task, seed, DELAYS if delayed else LATENCIES, Refused)
    try:
        names = load(source, loop, receivers, seed)
        output, error, beside = None, None, None
        neighbour = loop.create_task(names["beside"]()) if "beside" in names else None
        try:
            run_main = (
                _take_turns(names["main"], names["MESSAGES"]) if "MESSAGES" in names else names["main"]()
            )
            output = json.loads(json.dumps(loop.run_until_complete(run_main)))
        except Ambiguous:
            raise
        except (Exception, Death) as raised:
            error = type(raised).__name__
        if neighbour is not None:
            beside = json.loads(json.dumps(loop.run_until_complete(neighbour)))
        seconds = loop.time()
        while receivers.under_way:
            loop.run_until_complete(asyncio.sleep(1.0))
        effects = {effect: receivers.done(effect) for effect in set(EFFECTS.values()) - {"read_only"}}
        return Outcome(
            output, error, effects, receivers.reads(), receivers.crunched, receivers.sent(), seconds, beside
        )
    finally:
        _close(loop)


def load(source: str, loop: VirtualLoop, receivers: Receivers, seed: int) -> dict[str, Any]:
    """The names of the program's module, its tools and `hf` bound to plain functions."""
    import anyio

    app = SimpleNamespace(agent=lambda function: function, session=lambda function: function)
    names: dict[str, Any] = {
        "asyncio": asyncio,
        "anyio": anyio,
        "contextlib": contextlib,
        "contextvars": contextvars,
        "app": app,
        "crunch": receivers.crunch,
        "llm": PlainModel(receivers),
        "__name__": "program",
    }
    for tool in EFFECTS:
        names[tool] = _plain_tool(tool, receivers)
    code = compile(source, "<program>", "exec")
    names["hf"] = None
    exec(code, names)  # noqa: S102 - it is ours
    names["hf"] = Plain(loop, names.get("SIGNALS", {}), seed)
    return names


def _plain_tool(tool: str, receivers: Receivers) -> Callable[..., Coroutine[Any, Any, str]]:
    async def call(label: str, token: str = "", seconds: float = 0.0) -> str:
        if tool in ATTEMPTS:
            return await _call_again(tool, label, receivers)
        is_poison = find_poison(label) is not None
        if is_poison and dies_before(label):
            raise Death(label)
        answer = await receivers.request(tool, label, token, seconds=seconds)
        if is_poison:
            raise Death(label)
        return answer

    call.__name__ = call.__qualname__ = tool
    return call


async def _call_again(tool: str, label: str, receivers: Receivers) -> str:
    """The call as often as its policy allows, under one key. Whether an effect that raised has happened is found out,
    except by errors that say that nothing was sent."""
    key = f"key {receivers.ticks}"
    for attempt in range(1, ATTEMPTS[tool] + 1):
        try:
            return await receivers.request(tool, label, key=key)
        except ConnectionError:
            found = receivers.find(key) if tool in {"hire", "fax"} else None
            if found is not None:
                return answer_of(label)
            if attempt == ATTEMPTS[tool]:
                raise
            await asyncio.sleep(1.0)
    raise AssertionError("unreachable")


def _close(loop: VirtualLoop) -> None:
    """What `asyncio.run` does at its end."""
    loop.set_exception_handler(lambda *_: None)
    for _ in range(10):
        left = asyncio.all_tasks(loop)
        if not left:
            break
        for task in left:
            task.cancel()
        with contextlib.suppress(Ambiguous):
            loop.run_until_complete(asyncio.wait(left, timeout=10.0))
    with contextlib.suppress(Ambiguous):
        loop.run_until_complete(loop.shutdown_asyncgens())
    loop.close()


def decide(source: str) -> Outcome:
    """The outcome of the program, the same with every timing; or Ambiguous."""
    first = run(source)
    for seed, delayed in ((1, False), (2, False), (0, True), (1, True), (2, True)):
        other = run(source, seed, delayed=delayed)
        if other != first:
            msg = f"with other latencies it has another outcome: {first} and {other}"
            raise Ambiguous(msg)
    return first
