"""Writer: the parts that every generated program is made of: labels, durable calls, helper coroutines.

Blocks (see `blocks`) write statements that append to the list `out` of the function they stand in. Everything they
append, and every label they use, is the same whatever the timing.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

NAMES: Final = (
    "fetch settle handle check ship notify load gather_facts write_up follow_up research review collect prepare "
    "inspect resolve enrich publish audit reserve"
).split()
FRUITS: Final = "apple fig kiwi lemon mango olive plum quince".split()
SLOW: Final = "seconds=100000"
LONG_S: Final = 3600
"""A wait that decides a race: everything quick is over by then, whatever was killed meanwhile."""

CALLS_MAX: Final = 10


@dataclass
class Function:
    """A coroutine function that is being written."""

    name: str
    parameter: str | None = None
    lines: list[str] = field(default_factory=list)
    inner: list[list[str]] = field(default_factory=list)
    is_main: bool = False

    def render(self) -> list[str]:
        head = "" if self.parameter is None else self.parameter
        body = [line for function in self.inner for line in function]
        body += ["out = []", *self.lines, "return out"]
        return [f"async def {self.name}({head}):", *indent(body)]


Block = Callable[["Writer", Function, int], list[str]]
"""Statements for this function; `depth` says how much deeper helpers may nest."""


@dataclass(frozen=True)
class Entry:
    """A block in the vocabulary.

    `long`: it waits for an hour. `main`: it belongs into the agent's own function. `leaves`: a task of it goes on when
    the block is over. `late`: only programs from `generator.FIRST_LATE` on have it. `deadly`: a call of it ends its
    process; it stands only where the generator places it.
    """

    write: Block
    weight: float
    long: bool = False
    main: bool = False
    leaves: bool = False
    late: bool = False
    deadly: bool = False


VOCABULARY: Final[dict[str, Entry]] = {}


def block(
    weight: float,
    *,
    long: bool = False,
    main: bool = False,
    leaves: bool = False,
    late: bool = False,
    deadly: bool = False,
) -> Callable[[Block], Block]:
    """The function writes a block of the vocabulary."""

    def add(write: Block) -> Block:
        VOCABULARY[getattr(write, "__name__", "")] = Entry(write, weight, long, main, leaves, late, deadly)
        return write

    return add


def indent(lines: list[str]) -> list[str]:
    return [f"    {line}" for line in lines]


class Writer:
    """Writes one program."""

    def __init__(self, chance: random.Random) -> None:
        self.chance = chance
        self.calls = 0
        self.numbers = 0
        self.parts: list[list[str]] = []
        """What stands before `main`, in order."""
        self.names = self.chance.sample(NAMES, len(NAMES))
        self.signals: dict[str, float] = {}
        self.quick = False
        """Whether what is being written must be over soon: no long wait is allowed in it."""
        self.late = False
        """Whether calls fail and are made again."""
        self.holds = False
        """Whether a call blocks the loop."""
        self.settled = False
        """Whether no task may be left when a block is over: a checkpoint follows."""

    # ── chance ────────────────────────────────────────────────────────────────────────────────────

    def pick(self, **weights: float) -> str:
        return self.chance.choices(list(weights), list(weights.values()))[0]

    def maybe(self, share: float) -> bool:
        return self.chance.random() < share

    def number(self) -> int:
        self.numbers += 1
        return self.numbers

    def variable(self, name: str) -> str:
        """A variable that nobody else uses."""
        return f"{name}{self.number()}"

    def function_name(self) -> str:
        return self.names.pop() if self.names else f"work{self.number()}"

    # ── calls ─────────────────────────────────────────────────────────────────────────────────────

    def label(self, function: Function, prefix: str, beside: str = "") -> str:
        """A label that no other call site has, as source; one for each value of the function's parameter."""
        parts = [f"{{{name}}}" for name in (function.parameter, beside) if name]
        text = "-".join([f"{prefix}{self.number()}", *parts])
        return f'f"{text}"' if parts else f'"{text}"'

    def call(self, function: Function, beside: str = "") -> str:
        """One durable call, without its await. `beside` names a variable that is part of its label."""
        self.calls += 1
        tool = self.pick(look=0.28, compute=0.1, pay=0.3, book=0.1, mail=0.17, wire=0.05)
        label = self.label(function, tool[0], beside)
        if not self.maybe(0.12):
            return f"{tool}({label})"
        return f"{tool}({label}, {self.token()})"

    def token(self) -> str:
        """An argument that is drawn anew for each call, and the same again in every replay."""
        return self.chance.choice(("str(hf.uuid())", "str(hf.random())", "hf.now().isoformat()"))

    def read(self, function: Function, beside: str = "") -> str:
        self.calls += 1
        tool = self.pick(look=0.7, compute=0.3)
        return f"{tool}({self.label(function, tool[0], beside)})"

    def nap(self) -> str:
        """A short sleep, without its await."""
        seconds = self.chance.choice(("0", "0", "0.3", "1", "2.5"))
        return self.chance.choice(
            (f"asyncio.sleep({seconds})", f"asyncio.sleep({seconds})", 'hf.sleep("2s")')
        )

    def long_sleep(self) -> str:
        """A sleep that everything quick is over before, without its await."""
        return self.chance.choice((f"asyncio.sleep({LONG_S})", 'hf.sleep("1h")'))

    def timeout(self) -> str:
        """Seconds after which nobody waits any longer for something that never comes."""
        return str(self.chance.choice((0.2, 2, 5) if self.quick else (0.2, 2, 2, 5, LONG_S)))

    def never(self, function: Function) -> str:
        """Something that takes far longer than anybody waits, without its await."""
        kind = self.pick(read=0.3, sleep=0.2, event=0.1, durable=0.15, signal=0.1, question=0.05, child=0.1)
        if kind == "read":
            self.calls += 1
            return f"look({self.label(function, 'slow')}, {SLOW})"
        if kind == "sleep":
            return "asyncio.sleep(100000)"
        if kind == "event":
            return self.chance.choice(("asyncio.Event().wait()", "asyncio.Queue().get()"))
        if kind == "durable":
            return 'hf.sleep("3d")'
        if kind == "signal":
            return f"hf.wait({self.label(function, 'never')})"
        if kind == "question":
            return f"hf.ask({self.label(function, 'never')})"
        self.calls += 1
        self.needs_sleeper()
        return f"hf.spawn(sleeper, {self.label(function, 'child')})"

    def needs_sleeper(self) -> None:
        """The program has an agent that never comes to its end."""
        sleeper = ["@app.agent", "async def sleeper(name):", '    await hf.wait(f"never-{name}")']
        if sleeper not in self.parts:
            self.parts.insert(0, sleeper)

    # ── statements ────────────────────────────────────────────────────────────────────────────────

    def leaf(self, function: Function) -> list[str]:
        """A few statements without structure."""
        kind = self.pick(call=0.45, chain=0.25, nap=0.2, long=0.0 if self.quick else 0.04, bad=0.05)
        if kind == "call":
            return [f"out.append(await {self.call(function)})"]
        if kind == "chain":
            x = self.variable("x")
            return [f"{x} = await {self.read(function)}", f"out.append(await {self.call(function, x)})"]
        if kind == "nap":
            return [f"await {self.nap()}", f"out.append(await {self.call(function)})"]
        if kind == "long":
            return [f"await asyncio.sleep({LONG_S})", f"out.append(await {self.call(function)})"]
        self.calls += 1
        return [
            "try:",
            f"    await look({self.label(function, 'bad')})",
            "except LookupError:",
            f"    out.append({self.label(function, 'caught')})",
        ]

    def block(self, function: Function, depth: int) -> list[str]:
        """Any block of the vocabulary that may stand here."""
        entries = [
            entry
            for entry in VOCABULARY.values()
            if not entry.deadly
            and not (entry.long and self.quick)
            and not (entry.late and not self.late)
            and not (entry.leaves and self.settled)
            and (function.is_main or not entry.main)
        ]
        return self.chance.choices(entries, [one.weight for one in entries])[0].write(self, function, depth)

    # ── helpers ───────────────────────────────────────────────────────────────────────────────────

    def helper(self, function: Function, depth: int) -> str:
        """The name of a new helper coroutine with one parameter, beside or inside the function."""
        made = Function(self.function_name(), self.chance.choice(("n", "name", "item")))
        for _ in range(self.chance.choice((1, 1, 2))):
            made.lines += self.leaf(made)
        if depth > 0 and self.calls < CALLS_MAX and self.maybe(0.3):
            made.lines += self.block(made, depth - 1)
        self.place(function, made.render())
        return made.name

    def place(self, function: Function, lines: list[str]) -> None:
        """The helper stands inside the function, or beside it."""
        if self.maybe(0.5):
            function.inner.append(lines)
        else:
            self.parts.append(lines)

    def argument(self, function: Function, number: int) -> str:
        """An argument for a helper: another for each number, and for each value of the function's parameter."""
        return str(number) if function.parameter is None else f'f"{{{function.parameter}}}.{number}"'

    def helper_call(self, function: Function, depth: int, *, quick: bool = False) -> str:
        """A call of a new helper, without its await. `quick`: it is over soon."""
        before, self.quick = self.quick, self.quick or quick
        call = f"{self.helper(function, depth)}({self.argument(function, 0)})"
        self.quick = before
        return call

    def fan(self, function: Function, depth: int, *, quick: bool = False) -> list[str]:
        """Calls of helpers, without await: some coroutines to run side by side."""
        before, self.quick = self.quick, self.quick or quick
        count = self.chance.choice((2, 2, 3))
        if self.maybe(0.6):
            calls = self.calls
            name = self.helper(function, depth)
            self.calls += (self.calls - calls) * (count - 1)
            fan = [f"{name}({self.argument(function, number)})" for number in range(count)]
        else:
            fan = [f"{self.helper(function, depth)}({self.argument(function, n)})" for n in range(count)]
        self.quick = before
        return fan

    def items(self, function: Function, depth: int) -> str:
        """The same as the source of an iterable."""
        if self.maybe(0.5):
            return f"[{', '.join(self.fan(function, depth))}]"
        name = self.helper(function, depth)
        names = self.chance.sample(FRUITS, self.chance.choice((2, 3)))
        inside = "each" if function.parameter is None else f'f"{{{function.parameter}}}.{{each}}"'
        return f"[{name}({inside}) for each in {self.collection(names)}]"

    def collection(self, names: list[str]) -> str:
        """These names, or as many numbers, as something to iterate."""
        form = self.pick(range=0.4, set=0.3, dict=0.3)
        if form == "range":
            return f"range({len(names)})"
        if form == "set":
            return f"{{{', '.join(map(repr, names))}}}"
        return f"{{{', '.join(f'{name!r}: {number}' for number, name in enumerate(names))}}}"

    def signal(self, at: float) -> str:
        """The name of a signal that is sent at this time."""
        name = f"signal{self.number()}"
        self.signals[name] = at
        return name
