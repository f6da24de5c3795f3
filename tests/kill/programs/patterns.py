"""Blocks that are habits of people who write asyncio: retries, heartbeats, groups that grow, tasks that are twins."""

from __future__ import annotations

from typing import Final

from tests.kill.programs.writer import Function, Writer, block, indent

TICKING: Final = "timeout=0.5"
"""A timer that is set over and over."""

# ── trying again ──────────────────────────────────────────────────────────────────────────────────


@block(0.6)
def retry(w: Writer, f: Function, depth: int) -> list[str]:
    """A read that fails twice, with growing waits."""
    attempt, label = w.variable("attempt"), w.label(f, "", "ATTEMPT")
    w.calls += 3
    label = label.replace("ATTEMPT", attempt)
    return [
        f"{attempt} = 0",
        "while True:",
        "    try:",
        f'        out.append(await look(("bad" if {attempt} < 2 else "fine") + {label}))',
        "        break",
        "    except LookupError:",
        f"        {attempt} += 1",
        f"        await asyncio.sleep(0.2 * 2**{attempt})",
    ]


@block(0.6)
def retry_timeout(w: Writer, f: Function, depth: int) -> list[str]:
    """Something that never comes is waited for several times."""
    tries = w.variable("tries")
    return [
        f"{tries} = 0",
        f"while {tries} < 2:",
        "    try:",
        f"        async with asyncio.timeout({w.timeout()}):",
        f"            await {w.never(f)}",
        "    except TimeoutError:",
        f"        {tries} += 1",
        *w.leaf(f),
    ]


@block(0.6)
def nested_timeouts(w: Writer, f: Function, depth: int) -> list[str]:
    """Only the one in the middle is ever due."""
    return [
        "try:",
        "    async with asyncio.timeout(1000000) as outer:",
        "        try:",
        f"            async with asyncio.timeout({w.timeout()}):",
        "                async with asyncio.timeout(1000000):",
        f"                    await {w.never(f)}",
        "        except TimeoutError:",
        *indent(indent(indent(w.leaf(f)))),
        "finally:",
        "    out.append(outer.expired())",
    ]


@block(0.5)
def timeout_of_group(w: Writer, f: Function, depth: int) -> list[str]:
    """A timeout ends everything in a group."""
    group = w.variable("group")
    return [
        "try:",
        f"    async with asyncio.timeout({w.timeout()}):",
        f"        async with asyncio.TaskGroup() as {group}:",
        f"            {group}.create_task({w.never(f)})",
        f"            {group}.create_task({w.never(f)})",
        "except TimeoutError:",
        *indent(w.leaf(f)),
    ]


@block(0.5)
def refused(w: Writer, f: Function, depth: int) -> list[str]:
    """A receiver certainly did nothing, and the code does something else."""
    w.calls += 1
    return ["try:", f"    await mail({w.label(f, 'refused')})", "except hf.Refused:", *indent(w.leaf(f))]


# ── groups ────────────────────────────────────────────────────────────────────────────────────────


@block(0.8)
def direct(w: Writer, f: Function, depth: int) -> list[str]:
    """Calls of tools themselves side by side, without a helper around them."""
    calls = ", ".join(w.call(f) for _ in range(w.chance.choice((2, 3))))
    return [f"out.append(await asyncio.gather({calls}))"]


@block(0.8)
def twins(w: Writer, f: Function, depth: int) -> list[str]:
    """The same coroutine with the same argument, several times."""
    before, call = w.calls, w.helper_call(f, depth)
    w.calls += w.calls - before
    if w.maybe(0.5):
        return [f"out.append(await asyncio.gather({call}, {call}))"]
    group = w.variable("group")
    return [
        f"async with asyncio.TaskGroup() as {group}:",
        f"    twins = [{group}.create_task({call}), {group}.create_task({call})]",
        "out.append([task.result() for task in twins])",
    ]


@block(0.5)
def wide(w: Writer, f: Function, depth: int) -> list[str]:
    """Many reads at once."""
    w.calls += 4
    return [f"out.append(await asyncio.gather(*[{w.read(f, 'each')} for each in range(5)]))"]


@block(0.5)
def nested_gather(w: Writer, f: Function, depth: int) -> list[str]:
    first, second = ", ".join(w.fan(f, 0)), w.helper_call(f, 0)
    return [f"out.append(await asyncio.gather(asyncio.gather({first}), {second}))"]


@block(0.5)
def growing_group(w: Writer, f: Function, depth: int) -> list[str]:
    """A task of a group starts more tasks in it."""
    made, found, group = Function(w.function_name(), "n"), w.variable("found"), w.variable("group")
    call = w.call(made)
    w.calls += 2
    w.place(
        f,
        [
            f"async def {made.name}(n, group, found, more=2):",
            f"    found.append(await {call})",
            "    if more > 0:",
            f'        group.create_task({made.name}(f"{{n}}.{{more}}", group, found, more - 1))',
        ],
    )
    return [
        f"{found} = []",
        f"async with asyncio.TaskGroup() as {group}:",
        f"    {group}.create_task({made.name}({w.argument(f, 0)}, {group}, {found}))",
        f"out.append(sorted({found}))",
    ]


@block(0.5)
def cancelled_gather(w: Writer, f: Function, depth: int) -> list[str]:
    both = w.variable("both")
    return [
        f"{both} = asyncio.gather({w.never(f)}, {w.never(f)})",
        *w.leaf(f),
        f"{both}.cancel()",
        "try:",
        f"    await {both}",
        "except asyncio.CancelledError:",
        *indent(w.leaf(f)),
    ]


# ── tasks and callbacks ───────────────────────────────────────────────────────────────────────────


@block(0.6)
def heartbeat(w: Writer, f: Function, depth: int) -> list[str]:
    """A task is looked at every now and then until it is done."""
    task = w.variable("task")
    return [
        f"{task} = asyncio.create_task({w.helper_call(f, depth, quick=True)})",
        "while True:",
        f"    done, _ = await asyncio.wait({{{task}}}, {TICKING})",
        "    if done:",
        "        break",
        f"out.append({task}.result())",
    ]


@block(0.5)
def task_from_callback(w: Writer, f: Function, depth: int) -> list[str]:
    """The end of one task starts another."""
    first, more = w.variable("first"), w.variable("more")
    start = f"{more}.append(asyncio.create_task({w.helper_call(f, 0)}))"
    return [
        f"{first}, {more} = asyncio.create_task({w.helper_call(f, 0)}), []",
        f"{first}.add_done_callback(lambda _: {start})",
        f"out.append(await {first})",
        f"while not {more}:",
        "    await asyncio.sleep(0)",
        f"out.append(await {more}[0])",
    ]


@block(0.4)
def cancelled_timer(w: Writer, f: Function, depth: int) -> list[str]:
    timer = w.variable("timer")
    return [
        f"{timer} = asyncio.get_running_loop().call_later(100000, out.append, 'too late')",
        *w.leaf(f),
        f"{timer}.cancel()",
    ]


@block(0.4)
def cancels_itself(w: Writer, f: Function, depth: int) -> list[str]:
    made = Function(w.function_name(), "n")
    made.lines = [
        "asyncio.current_task().cancel()",
        "try:",
        f"    await {w.chance.choice(('asyncio.sleep(0)', 'asyncio.sleep(1)'))}",
        "except asyncio.CancelledError:",
        "    asyncio.current_task().uncancel()",
        *indent(w.leaf(made)),
    ]
    w.place(f, made.render())
    return [f"out.append(await asyncio.create_task({made.name}({w.argument(f, 0)})))"]


@block(0.4)
def context_variable(w: Writer, f: Function, depth: int) -> list[str]:
    """Tasks inherit the context of the code that starts them."""
    variable, made = f"CURRENT{w.number()}", w.function_name()
    call = w.call(Function("", None), f"{variable}.get()")
    w.calls += 1
    w.parts.append([f'{variable} = contextvars.ContextVar("{variable}")'])
    w.place(f, [f"async def {made}():", f"    return await {call}"])
    task = w.variable("task")
    return [
        f"{variable}.set({w.argument(f, 1)})",
        f"{task} = asyncio.create_task({made}())",
        f"{variable}.set({w.argument(f, 2)})",
        f"out.append([await {made}(), await {task}])",
    ]


@block(0.4)
def executor(w: Writer, f: Function, depth: int) -> list[str]:
    call = f"asyncio.get_running_loop().run_in_executor(None, crunch, {w.label(f, 'thread')})"
    return [f"out.append(await asyncio.gather({call}, {w.helper_call(f, depth)}))"]


@block(0.5)
def async_comprehension(w: Writer, f: Function, depth: int) -> list[str]:
    made = Function(w.function_name(), "n")
    read = w.read(made, "page")
    w.calls += 1
    w.place(f, [f"async def {made.name}(n):", "    for page in range(2):", f"        yield await {read}"])
    x = w.variable("x")
    return [f"out.append([{x} async for {x} in {made.name}({w.argument(f, 0)})])", *w.leaf(f)]


@block(0.4)
def questions(w: Writer, f: Function, depth: int) -> list[str]:
    """Two people are asked at once, and work goes on beside it."""
    asks = f"hf.ask({w.label(f, 'question')}), hf.ask({w.label(f, 'question')})"
    return [f"out.append(await asyncio.gather({asks}, {w.helper_call(f, depth)}))"]
