"""Generator: random asyncio programs, as source text, from a number.

A program is small and written as people write: one agent, `main`, and helper coroutines beside it or inside it. Every
durable call has a label of its own. What a program returns, and what it asks of the receivers, is decided whatever the
timing: results are collected in order or sorted; a timeout guards something that never comes, or something quick by a
margin that no takeover bridges; a race is won by an hour.
"""

from __future__ import annotations

import random

from tests.kill.programs import (
    blocks,
    deaths,
    durable,
    locks,
    models,
    patterns,
    retries,
    structured_concurrency,
)
from tests.kill.programs.writer import VOCABULARY, Function, Writer, indent

MODULES = (blocks, locks, durable, models, patterns, structured_concurrency, retries, deaths)
"""Importing them fills `writer.VOCABULARY`, in the order of the imports: a module renamed out of that order makes other
programs of all numbers."""


FIRST_LATE = 200_000
"""Programs from this number on have calls that are retried, and calls that block the loop. Those before are without, so
that their numbers stay."""

FIRST_DEADLY = 300_000
"""Programs from this number on end the processes in which they run, and have a healthy job beside them."""


def generate(number: int, attempt: int = 0, *, quick: bool = False) -> str:
    """The source of the program with this number; a later attempt is another program. `quick`: nothing takes long."""
    writer = Writer(random.Random(f"{number}/{attempt}"))
    writer.quick = quick
    writer.late = number >= FIRST_LATE
    if number >= FIRST_DEADLY:
        return _join([*_beside_another(writer)])
    if not quick and writer.maybe(0.06):
        return _join([*_session(writer)])
    main = Function("main", is_main=True)
    count = writer.chance.choice((1, 1, 2, 2, 3))
    if writer.late:
        name = writer.pick(retried=0.75, outage=0.25)
        main.lines += VOCABULARY[name].write(writer, main, 1)
        count = writer.chance.choice((0, 1, 1, 2))
    if not writer.late and writer.maybe(0.1):
        main.lines = _with_checkpoints(writer, main, count)
    else:
        for _ in range(count):
            main.lines += writer.block(main, 2)
        if writer.maybe(0.5):
            main.lines += writer.leaf(main)
        if writer.maybe(0.05):
            main.lines += [f"await look({writer.label(main, 'bad')})"]  # nobody catches it
    parts = [*writer.parts, ["@app.agent", *main.render()]]
    if writer.signals:
        parts.insert(0, [f"SIGNALS = {writer.signals!r}"])
    return _join(parts)


def _join(parts: list[list[str]]) -> str:
    return "\n\n\n".join("\n".join(part) for part in parts) + "\n"


def _beside_another(writer: Writer) -> list[list[str]]:
    """A job that ends its processes, and a healthy one."""
    writer.holds = True  # a blocked loop is a death as well
    main = Function("main", is_main=True)
    if writer.maybe(0.4):
        main.lines += writer.leaf(main)
    name = writer.pick(suspect=0.65, poison=0.35)
    main.lines += VOCABULARY[name].write(writer, main, 1)
    if name == "suspect" and writer.maybe(0.5):
        main.lines += writer.block(main, 1)
    if writer.maybe(0.5):
        main.lines += writer.leaf(main)
    parts = [*writer.parts, deaths.write_neighbour(writer), ["@app.agent", *main.render()]]
    return [[f"SIGNALS = {writer.signals!r}"], *parts] if writer.signals else parts


def _session(writer: Writer) -> list[list[str]]:
    """A session: messages come one after the other, and its handler does the same for each."""
    whens = ("earliest_safe_boundary", "after_current_turn_commit")
    messages = {
        f"hello{writer.number()}": (
            writer.chance.choice((0.0, 0.0, 1.0, 5000.0)),
            writer.chance.choice(whens),
        )
        for _ in range(writer.chance.choice((1, 2, 2, 3)))
    }
    handler = Function(writer.function_name(), "words")
    handler.lines = writer.leaf(handler)
    if writer.maybe(0.5):
        handler.lines += writer.block(handler, 0)
    body = ["out = []", "taken = 0", "while taken < len(turn.inputs):"]
    if writer.maybe(0.5):
        body += ['    words = turn.inputs[taken].payload["content"]', "    taken += 1"]
        body += [f"    out.append(await {handler.name}(words))"]
    else:
        body += ["    new, taken = turn.inputs[taken:], len(turn.inputs)"]
        body += [f'    out += await asyncio.gather(*[{handler.name}(one.payload["content"]) for one in new])']
    body += ["    await turn.poll()"] if writer.maybe(0.6) else []
    body += ['before = (turn.state or {"seen": []})["seen"]']
    body += ['turn.state = {"seen": sorted([*before, *map(str, out)])}', 'return "done"']
    main = ["@app.session", "async def main(turn):", *indent(body)]
    ordered = dict(sorted(messages.items(), key=lambda item: item[1][0]))
    return [[f"MESSAGES = {ordered!r}"], *writer.parts, handler.render(), main]


def _with_checkpoints(writer: Writer, main: Function, count: int) -> list[str]:
    """Phases, each of which ends with a checkpoint that the next attempt starts from."""
    writer.settled = True
    lines = ['state = await hf.restore({"phase": 0, "out": []})', 'out = state["out"]']
    for phase in range(1, count + 1):
        inside = writer.block(main, 1) if writer.maybe(0.6) else writer.leaf(main)
        lines += [
            f'if state["phase"] < {phase}:',
            *indent(inside),
            f'    await hf.checkpoint({{"phase": {phase}, "out": out}})',
        ]
    return lines + writer.leaf(main)
