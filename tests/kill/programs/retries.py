"""Blocks of calls that fail and are made again, and of calls that block the loop for longer than a lease."""

from __future__ import annotations

from tests.kill.programs.writer import Function, Writer, block, indent

SOME = ("1", "2", "3")


def _call(w: Writer, f: Function) -> str:
    """A call that fails for some time and succeeds, or blocks the loop; without its await."""
    w.calls += 1
    tool = w.pick(
        poll=0.2, total=0.1, charge=0.2, hire=0.15, fax=0.2, hold=0.15 if f.is_main and not w.holds else 0.0
    )
    if tool == "hold":
        w.holds = True  # once: a job that loses its worker three times is a dead letter
        return f"{w.pick(look=0.3, pay=0.3, book=0.1, mail=0.3)}({w.label(f, 'holds')})"
    modes = {"hire": ("fails1x", "loses1x"), "fax": (*(f"fails{n}x" for n in SOME), "loses1x", "vague1x")}
    fails = tuple(f"{mode}{n}x" for mode in ("fails", "loses") for n in SOME)
    return f"{tool}({w.label(f, w.chance.choice(modes.get(tool, fails)))})"


@block(3, late=True)
def retried(w: Writer, f: Function, depth: int) -> list[str]:
    form = w.pick(plain=0.4, gather=0.3, task=0.2, guarded=0.1)
    if form == "plain":
        return [f"out.append(await {_call(w, f)})"]
    if form == "gather":
        return [f"out.append(await asyncio.gather({_call(w, f)}, {w.call(f)}, {_call(w, f)}))"]
    if form == "guarded":
        return ["async with asyncio.timeout(1000000):", f"    out.append(await {_call(w, f)})"]
    task = w.variable("task")
    return [f"{task} = asyncio.create_task({_call(w, f)})", *w.leaf(f), f"out.append(await {task})"]


@block(2, late=True)
def outage(w: Writer, f: Function, depth: int) -> list[str]:
    """A receiver that is down for as long as anybody tries, or an error that is not retried."""
    w.calls += 1
    tool, mode, error = w.chance.choice(
        (
            ("poll", "down", "ConnectionError"),
            ("total", "down", "ConnectionError"),
            ("fax", "down", "ConnectionRefusedError"),
            ("poll", "denied", "PermissionError"),
        )
    )
    return [
        "try:",
        f"    await {tool}({w.label(f, mode)})",
        f"except {error}:",
        f"    out.append({w.label(f, 'caught')})",
        *indent(w.leaf(f)),
    ]
