"""Goal: whatever Python value goes in or out, it is stored as its JSON, or refused by an error that says what to do;
never changed, never a raw error. Method: Hypothesis makes nested values with subclasses, odd keys, cycles and depth,
and passes them through every place where the public API takes a value. The oracle knows nothing of Holdfast's rules
but what is documented."""

from __future__ import annotations

import asyncio
import collections
import contextlib
import dataclasses
import datetime as dt
import enum
import functools
import math
import uuid
from collections.abc import Awaitable, Callable, Iterator
from typing import Any, NamedTuple

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import holdfast as hf
from holdfast.testing import running

pytestmark = pytest.mark.store("memory")


# ── values ────────────────────────────────────────────────────────────────────────────────────────


class Token(str):
    __slots__ = ()

    def __str__(self) -> str:
        return "hidden"


class Count(int):
    pass


class Ratio(float):
    pass


class Rows(list[Any]):
    pass


class Record(dict[Any, Any]):
    pass


class Colour(enum.StrEnum):
    RED = "red"


class Level(enum.IntEnum):
    HIGH = 3


class Mood(enum.Enum):
    CALM = "calm"


class Weight(float, enum.Enum):
    HALF = 0.5


class Day(dt.date):
    pass


class Point(NamedTuple):
    x: Any
    y: Any


@dataclasses.dataclass
class Order:
    name: Any
    parts: Any


class Line(msgspec.Struct):
    item: Any
    cents: Any


DAY = dt.date(2026, 11, 17)
ID = uuid.UUID(int=7)

texts = st.text(max_size=6) | st.sampled_from(["1", "red", "calm", "\ud800", "2026-11-17"])
scalars = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**63), 2**63),
    st.floats(),
    texts,
    texts.map(Token),
    st.integers(-9, 9).map(Count),
    st.floats(-9, 9).map(Ratio),
    st.sampled_from([Colour.RED, Level.HIGH, Mood.CALM, Weight.HALF, DAY, Day(2026, 11, 17), ID]),
    st.sampled_from([2**70, Count(2**70), Ratio("nan")]),
    st.sampled_from([object(), 1j, range(3), Token]),
)
keys = st.one_of(
    texts,
    texts,
    texts.map(Token),
    st.integers(0, 3),
    st.integers(0, 3).map(Count),
    st.sampled_from([0.5, -1.25, math.nan, Colour.RED, Level.HIGH, Mood.CALM, DAY, ID]),
    st.sampled_from([None, True, (1, 2)]),
)


def containers(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    lists = st.lists(inner, max_size=4)
    dicts = st.dictionaries(keys, inner, max_size=4)
    return st.one_of(
        lists,
        lists.map(tuple),
        lists.map(Rows),
        dicts,
        dicts.map(Record),
        dicts.map(collections.OrderedDict),
        dicts.map(lambda items: collections.defaultdict(list, items)),
        st.sets(st.integers(-9, 9), max_size=4),
        st.frozensets(texts, max_size=4),
        st.builds(Point, inner, inner),
        st.builds(Order, inner, inner),
        st.builds(Line, inner, inner),
    )


def in_cycle(shape: str, inner: Any) -> Any:
    """A value that contains itself."""
    cycle: Any
    match shape:
        case "list":
            cycle = [inner]
            cycle.append({"again": cycle})
        case "dict":
            cycle = Record(inner=inner)
            cycle["again"] = (cycle,)
        case _:
            cycle = Order(inner, [])
            cycle.parts.append(cycle)
    return cycle


def in_lists(levels: int, inner: Any) -> Any:
    return functools.reduce(lambda value, _: [value], range(levels), inner)


trees = st.recursive(scalars, containers, max_leaves=8)
values = st.one_of(
    trees,
    trees,
    trees,
    st.builds(in_cycle, st.sampled_from(["list", "dict", "dataclass"]), trees),
    st.builds(in_lists, st.sampled_from([3, 70, 900, 10_000]), scalars),
)


# ── the oracle ────────────────────────────────────────────────────────────────────────────────────


class Unstorable(Exception):
    """JSON cannot hold it without loss."""


def to_json(value: Any, depth: int = 0) -> Any:
    """The JSON that a value stands for."""
    if depth > 60:
        raise Unstorable
    if isinstance(value, enum.Enum):
        return to_json(value.value, depth)
    match value:
        case None | bool():
            return value
        case str():
            return "".join(value)
        case int() if abs(value) < 2**63:
            return value + 0
        case float() if math.isfinite(value):
            return value * 1.0
        case dt.date():
            return value.isoformat()
        case uuid.UUID():
            return f"{value}"
        case Order() | Line():
            return {name: to_json(getattr(value, name), depth + 1) for name in type(value).__annotations__}
        case set() | frozenset():
            return [to_json(item, depth + 1) for item in sorted(value)]
        case list() | tuple():
            return [to_json(item, depth + 1) for item in value]
        case dict():
            items = [(to_key(key), to_json(item, depth + 1)) for key, item in value.items()]
            if len(dict(items)) < len(items):
                raise Unstorable
            return dict(items)
        case _:
            raise Unstorable


def to_key(key: Any) -> str:
    key = key.value if isinstance(key, enum.Enum) else key
    if key is None or isinstance(key, bool | tuple) or f"{key}" == "nan":
        raise Unstorable
    return "".join(key) if isinstance(key, str) else f"{key}"


def exact(value: Any) -> Any:
    """Equality that tells 1 from 1.0 and True, and a subclass from its base. Python's tuples are JSON's arrays."""
    if type(value) in {list, tuple}:
        return [exact(item) for item in value]
    if type(value) is dict:
        return {(type(key), key): exact(item) for key, item in value.items()}
    return (type(value), repr(value))


# ── where values go in and out ────────────────────────────────────────────────────────────────────

app = hf.App(store="memory:")
box: dict[str, Any] = {}
"""What job code takes its odd values from: an agent's arguments are JSON already."""


@app.tool(effect="read_only")
async def take(value: Any) -> None:
    box["taken"] = value


@app.tool(effect="read_only")
async def make() -> Any:
    return box["value"]


def said(error: hf.HoldfastError) -> dict[str, str]:
    """What job code has caught. A job that fails is tried again, which takes a while."""
    return {"error": f"{error}", "hint": error.hint}


@app.agent
async def calls_with() -> Any:
    try:
        return await take(box["value"])
    except hf.HoldfastError as error:
        return said(error)


@app.agent
async def called() -> Any:
    try:
        box["made"] = await make()
    except hf.HoldfastError as error:
        return said(error)
    return None


@app.agent
async def checkpoints() -> Any:
    try:
        await hf.checkpoint(box["value"])
    except hf.HoldfastError as error:
        return said(error)
    box["restored"] = await hf.restore(None, type=Any)
    return None


@app.agent
async def returns() -> Any:
    return box["value"]


@app.agent
async def takes(value: Any) -> Any:
    return value


@app.agent
async def waits() -> Any:
    return await hf.wait("value")


async def inside(agent: Any, outcome: str) -> Any:
    """What the agent left in the box; or the error that it has caught."""
    caught = await agent()
    if caught is not None:
        raise hf.HoldfastError(caught["error"], hint=caught["hint"])
    return box[outcome]


async def signal_body(value: Any) -> Any:
    job = await waits.start()
    try:
        await job.signal("value", value)
    except BaseException:
        await job.cancel("no signal comes")
        raise
    return await job.result()


PLACES: dict[str, Callable[[Any], Awaitable[Any]]] = {
    "tool argument": lambda _value: inside(calls_with, "taken"),
    "tool result": lambda _value: inside(called, "made"),
    "agent argument": takes,
    "agent result": lambda _value: returns(),
    "signal body": signal_body,
    "checkpoint": lambda _value: inside(checkpoints, "restored"),
}


@pytest.fixture(scope="module")
def through() -> Iterator[Callable[[str, Any], Any]]:
    """A function that passes a value through one of the places, in a process that is open for the whole module."""
    with asyncio.Runner() as runner:
        stack = contextlib.AsyncExitStack()

        async def passed(place: str, value: Any) -> Any:
            box["value"] = value
            async with asyncio.timeout(60):
                return await PLACES[place](value)

        runner.run(stack.enter_async_context(running(app)))
        yield lambda place, value: runner.run(passed(place, value))
        runner.run(stack.aclose())


def is_its_json_or_refused(place: str, value: Any, through: Callable[[str, Any], Any]) -> None:
    try:
        expected = to_json(value)
    except (Unstorable, RecursionError):
        with pytest.raises(hf.HoldfastError) as refused:
            through(place, value)
        assert refused.value.hint
        assert "RecursionError" not in f"{refused.value}", "a raw error, which a held job reports"
        return
    try:
        stored = through(place, value)
    except hf.HoldfastError as error:
        if "another text by its __str__" not in f"{error}":  # a key inside an object, which writes itself
            raise
    else:
        assert exact(stored) == exact(expected)


@pytest.mark.parametrize("place", [place for place in PLACES if place != "agent result"])
@settings(max_examples=100)
@given(value=values)
def test_a_value_is_its_json_or_refused(place: str, value: Any, through: Callable[[str, Any], Any]) -> None:
    is_its_json_or_refused(place, value, through)


@settings(max_examples=8)
@given(value=values)
def test_an_output_is_its_json_or_refused(value: Any, through: Callable[[str, Any], Any]) -> None:
    """Fewer, since a job whose output is refused is tried three times, with pauses, before it is held."""
    is_its_json_or_refused("agent result", value, through)


# ── what users have met ───────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("place", PLACES)
def test_a_subclass_is_stored_as_its_base(place: str, through: Callable[[str, Any], Any]) -> None:
    value = {"token": Token("abc"), "count": Count(3), "rows": Rows([Ratio(0.5), Colour.RED]), Token("k"): 1}
    stored = {"token": "abc", "count": 3, "rows": [0.5, "red"], "k": 1}
    assert exact(through(place, value)) == exact(stored)


@pytest.mark.parametrize(
    "value, says",
    [
        (in_lists(10_000, 1), r"nested deeper than 6\d levels \(at "),
        (in_cycle("list", 1), r"contains itself: what is at /1/again is also at the top"),
        (in_cycle("dataclass", 1), r"contains itself: what is at /parts/0 is also at the top"),
        ({"a": {1: "x", "1": "y"}}, r"the keys 1 and '1' are the same text in JSON \(at /a\)"),
        ({"a": [1, object()]}, r"object cannot be encoded as JSON \(at /a/1\)"),
        ({"a": {None: 1}}, r"the key None is NoneType, not text \(at /a\)"),
    ],
    ids=["deep", "cycle", "dataclass cycle", "colliding keys", "unknown type", "odd key"],
)
@pytest.mark.parametrize("place", PLACES)
def test_an_error_says_what_and_where(
    place: str, value: Any, says: str, through: Callable[[str, Any], Any]
) -> None:
    with pytest.raises(hf.HoldfastError, match=says) as refused:
        through(place, value)
    assert refused.value.hint


@app.tool(effect="read_only")
async def sign(token: Token) -> Token:
    assert type(token) is Token
    return Token(f"signed {token!r}")


@app.agent
async def signs(token: Token) -> list[Any]:
    signed = await sign(token)
    return [type(token) is Token, type(signed) is Token, signed]


async def test_a_hint_that_names_a_subclass_gets_one() -> None:
    async with running(app):
        assert await signs(Token("abc")) == [True, True, "signed 'abc'"]


sent: list[str] = []


@app.tool(effect="unsafe")
async def send(item: str) -> Any:
    sent.append(item)
    return in_cycle("list", item)


@app.agent
async def sends() -> str:
    try:
        await send("a fax")
    except hf.HoldfastError as error:
        return f"{error}"
    return "stored"


async def test_an_effect_whose_result_cannot_be_stored_has_happened() -> None:
    """No person is asked what became of it, and it is not sent again: the code hears that the result is lost."""
    sent.clear()
    async with running(app):
        assert "the result of send cannot be stored: it contains itself" in await sends()
    assert sent == ["a fax"]


@pytest.mark.parametrize("body", [in_lists(64, 1), "x" * (1024 * 1024 - 3)], ids=["deep", "large"])
async def test_a_signal_that_no_journal_can_take_is_refused(body: Any) -> None:
    """It is the sender's mistake, and must not fail the job at every attempt: the next signal is heard."""
    async with running(app):
        job = await waits.start()
        with pytest.raises(hf.HoldfastError):
            await job.signal("value", body)
        await job.signal("value", "a good one")
        assert await job.result() == "a good one"
