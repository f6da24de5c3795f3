"""Blocks of Holdfast's own words: sleep, wait, ask, spawn, scope, other agents, and timeouts around each of them."""

from __future__ import annotations

from tests.kill.programs.writer import Function, Writer, block, indent


@block(0.8)
def durable_sleep(w: Writer, f: Function, depth: int) -> list[str]:
    duration = w.chance.choice(("2s",) if w.quick else ("2s", "90s", "1h", "3d"))
    return [f'await hf.sleep("{duration}")', *w.leaf(f)]


@block(0.8, main=True)
def signal(w: Writer, f: Function, depth: int) -> list[str]:
    """A signal that comes, waited for with and without a limit."""
    name = w.signal(w.chance.choice((0.0, 3.0, 30.0) if w.quick else (0.0, 3.0, 30.0, 5000.0)))
    form = w.pick(plain=0.4, limit=0.2, timeout=0.2, task=0.2)
    if form == "plain":
        return [f'out.append(await hf.wait("{name}"))', *w.leaf(f)]
    if form == "limit":
        return [f'out.append(await hf.wait("{name}", timeout="30d"))', *w.leaf(f)]
    if form == "timeout":
        return ["async with asyncio.timeout(1000000):", f'    out.append(await hf.wait("{name}"))']
    task = w.variable("task")
    return [f'{task} = asyncio.create_task(hf.wait("{name}"))', *w.leaf(f), f"out.append(await {task})"]


@block(0.7)
def signal_that_never_comes(w: Writer, f: Function, depth: int) -> list[str]:
    limit = w.chance.choice(("2s",) if w.quick else ("2s", "90s", "1d"))
    word = w.chance.choice(("wait", "ask"))
    return [
        "try:",
        f'    await hf.{word}({w.label(f, "never")}, timeout="{limit}")',
        "except TimeoutError:",
        *indent(w.leaf(f)),
    ]


@block(0.5)
def question(w: Writer, f: Function, depth: int) -> list[str]:
    return [f"out.append(await hf.ask({w.label(f, 'question')}))", *w.leaf(f)]


@block(0.6, main=True)
def beside_signal(w: Writer, f: Function, depth: int) -> list[str]:
    """Tasks that sleep and call beside a durable wait."""
    name = w.signal(w.chance.choice((3.0, 30.0)))
    made = Function(w.function_name(), "n")
    made.lines = [f"await asyncio.sleep({w.chance.choice((0.3, 1))})", *w.leaf(made)]
    w.place(f, made.render())
    return [f'out.append(await asyncio.gather(hf.wait("{name}"), {made.name}(0), {made.name}(1)))']


def _agent(w: Writer, depth: int) -> str:
    """The name of another agent, with one parameter."""
    made = Function(w.function_name(), "n")
    made.lines = w.leaf(made) if depth == 0 or w.maybe(0.6) else w.block(made, 0)
    if w.maybe(0.4):
        made.lines += w.leaf(made)
    w.parts.append(["@app.agent", *made.render()])
    return made.name


@block(1)
def child(w: Writer, f: Function, depth: int) -> list[str]:
    """Jobs of their own."""
    name = _agent(w, depth)
    if w.maybe(0.4):
        return [f"out.append(await hf.spawn({name}, {w.argument(f, 0)}))"]
    if w.maybe(0.3):
        return [f"out.append(await asyncio.wait_for(hf.spawn({name}, {w.argument(f, 0)}), 1000000))"]
    calls = ", ".join(f"hf.spawn({name}, {w.argument(f, n)})" for n in range(2))
    return [f"out.append(await asyncio.gather({calls}))"]


@block(0.8)
def nested_agent(w: Writer, f: Function, depth: int) -> list[str]:
    """Another agent, as a part of this job."""
    name = _agent(w, depth)
    if w.maybe(0.5):
        return [f"out.append(await {name}({w.argument(f, 0)}))"]
    return [f"out.append(await asyncio.gather({name}({w.argument(f, 0)}), {name}({w.argument(f, 1)})))"]


@block(0.7)
def scope(w: Writer, f: Function, depth: int) -> list[str]:
    inside = w.leaf(f) if depth == 0 else w.block(f, depth - 1)
    return [f'async with hf.scope("part{w.number()}"):', *indent(inside)]
