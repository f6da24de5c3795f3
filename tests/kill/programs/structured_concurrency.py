"""Blocks of anyio: task groups, cancel scopes, and its own timeouts and events."""

from __future__ import annotations

from tests.kill.programs.writer import Function, Writer, block, indent


@block(1)
def anyio_group(w: Writer, f: Function, depth: int) -> list[str]:
    """Children of an anyio task group put what they found into a list."""
    made, found, group = Function(w.function_name(), "n"), w.variable("found"), w.variable("group")
    call = w.call(made)
    nap = [f"    await anyio.sleep({w.chance.choice((0, 0.3, 1))})"] if w.maybe(0.4) else []
    w.calls += 1
    w.place(f, [f"async def {made.name}(n, found):", *nap, f"    found.append(await {call})"])
    starts = [f"    {group}.start_soon({made.name}, {w.argument(f, n)}, {found})" for n in range(2)]
    beside = indent(w.leaf(f)) if w.maybe(0.4) else []
    return [
        f"{found} = []",
        f"async with anyio.create_task_group() as {group}:",
        *starts,
        *beside,
        f"out.append(sorted({found}))",
    ]


@block(1)
def move_on_after(w: Writer, f: Function, depth: int) -> list[str]:
    scope = w.variable("scope")
    if w.maybe(0.3):
        inside = w.leaf(f) if depth == 0 else w.block(f, depth - 1)
        return [
            f"with anyio.move_on_after(1000000) as {scope}:",
            *indent(inside),
            f"out.append({scope}.cancelled_caught)",
        ]
    return [
        f"with anyio.move_on_after({w.timeout()}) as {scope}:",
        f"    await {w.never(f)}",
        f"out.append({scope}.cancelled_caught)",
        *w.leaf(f),
    ]


@block(0.7)
def fail_after(w: Writer, f: Function, depth: int) -> list[str]:
    return [
        "try:",
        f"    with anyio.fail_after({w.timeout()}):",
        f"        await {w.never(f)}",
        "except TimeoutError:",
        *indent(w.leaf(f)),
    ]


@block(0.7)
def cancel_scope(w: Writer, f: Function, depth: int) -> list[str]:
    """The first to be done cancels the group."""
    group = w.variable("group")
    lines = [f"async with anyio.create_task_group() as {group}:"]
    made = w.function_name()
    w.place(f, [f"async def {made}(n):", f"    await {w.never(Function('', 'n'))}"])
    lines += [
        f"    {group}.start_soon({made}, {w.argument(f, n)}) ".rstrip()
        for n in range(w.chance.choice((1, 2)))
    ]
    return [*lines, *indent(w.leaf(f)), f"    {group}.cancel_scope.cancel()", *w.leaf(f)]


@block(0.5)
def shielded_scope(w: Writer, f: Function, depth: int) -> list[str]:
    """Cleaning up under a shield, in a scope that is cancelled."""
    return [
        f"with anyio.move_on_after({w.timeout()}):",
        "    try:",
        f"        await {w.never(f)}",
        "    finally:",
        "        with anyio.CancelScope(shield=True):",
        *indent(indent(indent(w.leaf(f)))),
    ]


@block(0.5)
def anyio_stream(w: Writer, f: Function, depth: int) -> list[str]:
    made, send, receive = w.function_name(), w.variable("send"), w.variable("receive")
    read = w.read(Function("", None), "part")
    w.calls += 2
    call = w.call(f, "part")
    items = ", ".join(w.argument(f, n) for n in range(2))
    f.inner.append(
        [
            f"async def {made}(stream):",
            "    async with stream:",
            f"        for part in [{items}]:",
            f"            await stream.send(await {read})",
        ]
    )
    group = w.variable("group")
    return [
        f"{send}, {receive} = anyio.create_memory_object_stream(1)",
        f"async with anyio.create_task_group() as {group}, {receive}:",
        f"    {group}.start_soon({made}, {send})",
        f"    async for part in {receive}:",
        f"        out.append(await {call})",
    ]
