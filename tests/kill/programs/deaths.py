"""Blocks of calls that end the process in which they run, and a healthy job beside them.

A program has one such call. One that ends its process some times stays below conviction whatever single fault befalls a
worker besides; one that always does becomes a dead letter, and stands where no other call of its job makes progress
meanwhile, so that the number of processes that it costs is decided.
"""

from __future__ import annotations

from tests.kill.programs.writer import Function, Writer, block, indent


def _dying_call(w: Writer, f: Function) -> str:
    """A call that ends its process some times and then succeeds; without its await."""
    w.calls += 1
    tool = w.pick(look=0.3, compute=0.1, pay=0.3, book=0.15, mail=0.15)
    mode = w.pick(crashes1x=0.25, killed1x=0.1, killed2x=0.3, killed3x=0.35)
    return f"{tool}({w.label(f, f'{mode}_{w.pick(before=0.5, after=0.5)}')})"


@block(0, deadly=True)
def suspect(w: Writer, f: Function, depth: int) -> list[str]:
    """A job that loses its workers, runs alone, and completes."""
    form = w.pick(plain=0.5, gather=0.25, task=0.15, guarded=0.1)
    if form == "plain":
        return [f"out.append(await {_dying_call(w, f)})"]
    if form == "gather":
        return [f"out.append(await asyncio.gather({w.call(f)}, {_dying_call(w, f)}, {w.call(f)}))"]
    if form == "guarded":
        return ["async with asyncio.timeout(1000000):", f"    out.append(await {_dying_call(w, f)})"]
    task = w.variable("task")
    return [f"{task} = asyncio.create_task({_dying_call(w, f)})", *w.leaf(f), f"out.append(await {task})"]


@block(0, deadly=True)
def poison(w: Writer, f: Function, depth: int) -> list[str]:
    """A job whose process dies every time."""
    w.calls += 1
    tool, moment = w.chance.choice(
        (
            ("look", "before"),
            ("look", "after"),
            ("compute", "before"),
            ("pay", "before"),
            ("pay", "after"),
            ("book", "before"),
        )
    )
    label = w.label(f, f"{w.pick(poison=0.6, devours=0.4)}_{moment}")
    return [f"out.append(await {tool}({label}))"]


def write_neighbour(w: Writer) -> list[str]:
    """The job beside: it has calls under way when its worker dies, and between two deaths."""
    beside = Function("beside")
    for _ in range(w.chance.choice((1, 2, 2))):
        form = w.pick(leaf=0.4, slow=0.35, gather=0.25)
        if form == "slow":
            w.calls += 1
            seconds = w.chance.choice((1, 20, 400))
            beside.lines += [f"out.append(await look({w.label(beside, 'long')}, seconds={seconds}))"]
        elif form == "gather":
            beside.lines += [f"out.append(await asyncio.gather({w.call(beside)}, {w.call(beside)}))"]
        else:
            beside.lines += w.leaf(beside)
    if w.maybe(0.3):
        beside.lines = [
            "for n in range(2):",
            *indent([f"out.append(await {w.read(beside, 'n')})"]),
            *beside.lines,
        ]
    return ["@app.agent", *beside.render()]
