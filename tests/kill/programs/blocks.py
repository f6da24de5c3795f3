"""Blocks of asyncio itself: tasks and groups of them, waiting, timeouts, cancellation, errors, callbacks, threads."""

from __future__ import annotations

from tests.kill.programs.writer import LONG_S, Function, Writer, block, indent

# ── side by side ──────────────────────────────────────────────────────────────────────────────────


@block(3)
def gather(w: Writer, f: Function, depth: int) -> list[str]:
    if w.maybe(0.3):
        return [f"out.append(sorted(await asyncio.gather(*{w.items(f, depth)}), key=str))"]
    flag = ", return_exceptions=True" if w.maybe(0.2) else ""
    return [f"out.append(await asyncio.gather({', '.join(w.fan(f, depth))}{flag}))"]


@block(2)
def task_group(w: Writer, f: Function, depth: int) -> list[str]:
    group, tasks = w.variable("group"), w.variable("tasks")
    if w.maybe(0.4):
        return [
            f"async with asyncio.TaskGroup() as {group}:",
            f"    {tasks} = [{group}.create_task(one) for one in {w.items(f, depth)}]",
            f"out.append(sorted(str(task.result()) for task in {tasks}))",
        ]
    calls = w.fan(f, depth)
    made = [f"    {tasks}_{number} = {group}.create_task({call})" for number, call in enumerate(calls)]
    beside = indent(w.leaf(f)) if w.maybe(0.3) else []
    results = ", ".join(f"{tasks}_{number}.result()" for number in range(len(calls)))
    return [f"async with asyncio.TaskGroup() as {group}:", *made, *beside, f"out.append([{results}])"]


@block(2.5)
def as_completed(w: Writer, f: Function, depth: int) -> list[str]:
    found, items = w.variable("found"), w.items(f, depth)
    lines = [f"{found} = []"]
    if w.maybe(0.4):
        tasks = w.variable("tasks")
        lines.append(f"{tasks} = [asyncio.create_task(one) for one in {items}]")
        items = tasks
    limit = ", timeout=1000000" if w.maybe(0.2) else ""
    lines.append(f"for next_one in asyncio.as_completed({items}{limit}):")
    if w.maybe(0.5):
        lines.append(f"    {found}.append(str(await next_one))")
    else:
        x = w.variable("x")
        w.calls += 1
        lines += [f"    {x} = str(await next_one)", f"    {found}.append(await {w.call(f, x)})"]
    return [*lines, f"out.append(sorted({found}))"]


@block(2)
def wait_all(w: Writer, f: Function, depth: int) -> list[str]:
    when = w.chance.choice(
        (
            "",
            ", return_when=asyncio.ALL_COMPLETED",
            ", return_when=asyncio.FIRST_EXCEPTION",
            ", timeout=1000000",
        )
    )
    tasks, found = w.variable("tasks"), w.variable("found")
    lines = [
        f"{tasks} = [asyncio.create_task(one) for one in {w.items(f, depth)}]",
        f"done, pending = await asyncio.wait({tasks}{when})",
    ]
    if w.maybe(0.6):
        w.calls += 1
        return [
            *lines,
            f"{found} = []",
            "for task in done:",
            f"    {found}.append(await {w.call(f, 'task.result()')})",
            f"out.append(sorted({found}))",
        ]
    return [*lines, "out.append(sorted(str(task.result()) for task in done))"]


@block(2)
def wait_first(w: Writer, f: Function, depth: int) -> list[str]:
    pending, found = w.variable("pending"), w.variable("found")
    w.calls += 1
    return [
        f"{pending} = {{asyncio.create_task(one) for one in {w.items(f, depth)}}}",
        f"{found} = []",
        f"while {pending}:",
        f"    done, {pending} = await asyncio.wait({pending}, return_when=asyncio.FIRST_COMPLETED)",
        "    for task in done:",
        f"        {found}.append(await {w.call(f, 'task.result()')})",
        f"out.append(sorted({found}))",
    ]


@block(1)
def wait_with_timeout(w: Writer, f: Function, depth: int) -> list[str]:
    """Some are done when the time is up, by far; the others are cancelled."""
    slow = w.variable("slow")
    return [
        f"{slow} = [asyncio.create_task({w.never(f)}), asyncio.create_task({w.never(f)})]",
        f"done, pending = await asyncio.wait({slow}, timeout={w.timeout()})",
        "for task in pending:",
        "    task.cancel()",
        "out.append([len(done), len(await asyncio.gather(*pending, return_exceptions=True))])",
    ]


@block(1)
def recursion(w: Writer, f: Function, depth: int) -> list[str]:
    """A coroutine that starts itself again, twice as often at each level."""
    name = w.function_name()
    made = Function(name, "n")
    inside = w.call(made)
    w.calls += 2
    w.place(
        f,
        [
            f"async def {name}(n, level=1):",
            f"    out = [await {inside}]",
            "    if level > 0:",
            f'        out += await asyncio.gather({name}(f"{{n}}.0", level - 1), {name}(f"{{n}}.1", level - 1))',
            "    return out",
        ],
    )
    return [f"out.append(await {name}({w.argument(f, 0)}))"]


# ── timeouts ──────────────────────────────────────────────────────────────────────────────────────


@block(1.5)
def wait_for(w: Writer, f: Function, depth: int) -> list[str]:
    if w.maybe(0.4):
        return [f"out.append(await asyncio.wait_for({w.helper_call(f, depth)}, 1000000))"]
    return [
        "try:",
        f"    await asyncio.wait_for({w.never(f)}, {w.timeout()})",
        "except TimeoutError:",
        *indent(w.leaf(f)),
    ]


@block(1.5)
def timeout(w: Writer, f: Function, depth: int) -> list[str]:
    if w.maybe(0.4):
        inside = w.leaf(f) if depth == 0 else w.block(f, depth - 1)
        return ["async with asyncio.timeout(1000000):", *indent(inside)]
    opening = [f"    async with asyncio.timeout({w.timeout()}):"]
    if w.maybe(0.2):
        opening = [
            "    async with asyncio.timeout(None) as limit:",
            f"        limit.reschedule(asyncio.get_running_loop().time() + {w.timeout()})",
        ]
    return ["try:", *opening, f"        await {w.never(f)}", "except TimeoutError:", *indent(w.leaf(f))]


@block(1)
def timeout_in_tasks(w: Writer, f: Function, depth: int) -> list[str]:
    """Several timeouts side by side, each around something that never comes."""
    made = Function(w.function_name(), "n")
    made.lines = [
        "try:",
        f"    async with asyncio.timeout({w.timeout()}):",
        f"        await {w.never(made)}",
        "except TimeoutError:",
        *indent(w.leaf(made)),
    ]
    w.calls += 1
    w.place(f, made.render())
    calls = f"{made.name}({w.argument(f, 0)}), {made.name}({w.argument(f, 1)})"
    return [f"out.append(await asyncio.gather({calls}))"]


@block(0.8, long=True)
def shield(w: Writer, f: Function, depth: int) -> list[str]:
    """A timeout gives up waiting, and the task goes on."""
    if w.maybe(0.4):
        return [f"out.append(await asyncio.shield({w.helper_call(f, depth)}))"]
    made = Function(w.function_name(), "n")
    made.lines = [f"await {w.long_sleep()}", *w.leaf(made)]
    w.place(f, made.render())
    task = w.variable("task")
    return [
        f"{task} = asyncio.create_task({made.name}({w.argument(f, 0)}))",
        "try:",
        f"    await asyncio.wait_for(asyncio.shield({task}), {w.chance.choice((0.2, 2))})",
        "except TimeoutError:",
        *indent(w.leaf(f)),
        f"out.append(await {task})",
    ]


# ── races, cancellation, errors ───────────────────────────────────────────────────────────────────


@block(1.5)
def race(w: Writer, f: Function, depth: int) -> list[str]:
    racers, calls = w.variable("racers"), [w.helper_call(f, depth, quick=True), w.never(f)]
    return [
        f"{racers} = [{', '.join(f'asyncio.create_task({call})' for call in calls)}]",
        f"done, pending = await asyncio.wait({racers}, return_when=asyncio.FIRST_COMPLETED)",
        "for task in pending:",
        "    task.cancel()",
        "await asyncio.gather(*pending, return_exceptions=True)",
        "out.append([task.result() for task in done])",
    ]


@block(1)
def cancelled(w: Writer, f: Function, depth: int) -> list[str]:
    loser = w.variable("loser")
    lines = [f"{loser} = asyncio.create_task({w.never(f)})", *w.leaf(f), f"{loser}.cancel()"]
    if w.settled or w.maybe(0.7):
        lines += ["try:", f"    await {loser}", "except asyncio.CancelledError:", *indent(w.leaf(f))]
    return lines


@block(1)
def cleanup(w: Writer, f: Function, depth: int) -> list[str]:
    """A task that is cancelled makes a last call in its `finally` or `except`."""
    made = Function(w.function_name(), "n")
    catch = w.chance.choice(("finally:", "except asyncio.CancelledError:"))
    again = ["    raise"] if catch.startswith("except") and w.maybe(0.5) else []
    made.lines = ["try:", f"    await {w.never(made)}", catch, *indent(w.leaf(made)), *again]
    w.place(f, made.render())
    loser = w.variable("loser")
    w.calls += 1
    return [
        f"{loser} = asyncio.create_task({made.name}({w.argument(f, 0)}))",
        f"out.append(await look({w.label(f, 'started')}))",
        "await asyncio.sleep(0.5)",
        f"{loser}.cancel()",
        f"out.append(str(await asyncio.gather({loser}, return_exceptions=True)))",
    ]


@block(1, long=True)
def failing_gather(w: Writer, f: Function, depth: int) -> list[str]:
    """One of the coroutines raises, an hour after the others have ended."""
    failing = Function(w.function_name(), "n")
    w.calls += 1
    failing.lines = [f"await asyncio.sleep({LONG_S})", f"await look({w.label(failing, 'bad')})"]
    w.place(f, failing.render())
    calls = ", ".join([*w.fan(f, depth, quick=True), f"{failing.name}({w.argument(f, 9)})"])
    if w.maybe(0.4):
        found = w.variable("found")
        return [
            f"{found} = await asyncio.gather({calls}, return_exceptions=True)",
            f"out.append([repr(one) if isinstance(one, Exception) else one for one in {found}])",
        ]
    return ["try:", f"    await asyncio.gather({calls})", "except LookupError:", *indent(w.leaf(f))]


@block(1)
def failing_group(w: Writer, f: Function, depth: int) -> list[str]:
    """One task of a group raises; the others, which would take for ever, are cancelled by the group."""
    group = w.variable("group")
    w.calls += 1
    catch = w.chance.choice(("except* LookupError:", "except ExceptionGroup:"))
    return [
        "try:",
        f"    async with asyncio.TaskGroup() as {group}:",
        f"        {group}.create_task({w.never(f)})",
        f"        {group}.create_task(look({w.label(f, 'bad')}))",
        *([f"        {group}.create_task({w.never(f)})"] if w.maybe(0.4) else []),
        catch,
        *indent(w.leaf(f)),
    ]


@block(0.7)
def try_finally(w: Writer, f: Function, depth: int) -> list[str]:
    w.calls += 1
    return [
        "try:",
        "    try:",
        f"        await look({w.label(f, 'bad')})",
        "    finally:",
        *indent(indent(w.leaf(f))),
        "except LookupError:",
        *indent(w.leaf(f)),
    ]


# ── tasks ─────────────────────────────────────────────────────────────────────────────────────────


@block(1.2)
def background(w: Writer, f: Function, depth: int) -> list[str]:
    task = w.variable("task")
    make = w.chance.choice(("asyncio.create_task", "asyncio.ensure_future"))
    return [f"{task} = {make}({w.helper_call(f, depth)})", *w.leaf(f), f"out.append(await {task})"]


@block(0.7, long=True, leaves=True)
def forgotten(w: Writer, f: Function, depth: int) -> list[str]:
    """A task that nobody awaits; it is over before the long sleep is."""
    task = w.variable("task")
    return [
        f"{task} = asyncio.create_task({w.helper_call(f, depth, quick=True)})",
        *w.leaf(f),
        f"await {w.long_sleep()}",
    ]


@block(0.6, leaves=True, main=True)
def left_waiting(w: Writer, f: Function, depth: int) -> list[str]:
    """A task that is still waiting when everything is over."""
    return [f"{w.variable('task')} = asyncio.create_task({w.never(f)})", *w.leaf(f)]


@block(0.8)
def polling(w: Writer, f: Function, depth: int) -> list[str]:
    task = w.variable("task")
    return [
        f"{task} = asyncio.create_task({w.helper_call(f, depth, quick=True)})",
        f"while not {task}.done():",
        f"    await asyncio.sleep({w.chance.choice(('0', '0', '0.1'))})",
        f"out.append({task}.result())",
    ]


@block(0.7)
def method(w: Writer, f: Function, depth: int) -> list[str]:
    """Coroutines that are methods, and share their object's state."""
    name, made = f"Desk{w.number()}", Function(w.function_name(), "n")
    call = w.call(made)
    w.calls += 1
    w.parts.append(
        [
            f"class {name}:",
            "    def __init__(self):",
            "        self.found = []",
            "",
            f"    async def {made.name}(self, n):",
            f"        self.found.append(await {call})",
        ]
    )
    desk = w.variable("desk")
    return [
        f"{desk} = {name}()",
        f"await asyncio.gather({desk}.{made.name}({w.argument(f, 0)}), {desk}.{made.name}({w.argument(f, 1)}))",
        f"out.append(sorted({desk}.found))",
    ]


# ── callbacks, timers, threads ────────────────────────────────────────────────────────────────────


@block(0.8)
def timer(w: Writer, f: Function, depth: int) -> list[str]:
    """Timers of the loop, some of them set from a callback."""
    over, loop, seconds = w.variable("over"), "asyncio.get_running_loop()", w.chance.choice((0.5, 1, 3))
    then = w.chance.choice(
        (
            f"{loop}.call_later({seconds}, {over}.set)",
            f"{loop}.call_at({loop}.time() + {seconds}, {over}.set)",
            f"{loop}.call_later({seconds}, lambda: {loop}.call_later(1, {over}.set))",
            f"{loop}.call_soon(lambda: {loop}.call_later({seconds}, {over}.set))",
        )
    )
    return [f"{over} = asyncio.Event()", then, *w.leaf(f), f"await {over}.wait()", *w.leaf(f)]


@block(0.5, long=True)
def task_from_timer(w: Writer, f: Function, depth: int) -> list[str]:
    """A timer starts a task."""
    started = w.variable("started")
    call = f"{started}.append(asyncio.create_task({w.helper_call(f, 0)}))"
    return [
        f"{started} = []",
        f"asyncio.get_running_loop().call_later({w.chance.choice((0.5, 3))}, lambda: {call})",
        *w.leaf(f),
        f"await asyncio.sleep({LONG_S})",
        f"out.append(await {started}[0])",
    ]


@block(0.6)
def done_callback(w: Writer, f: Function, depth: int) -> list[str]:
    over, task = w.variable("over"), w.variable("task")
    return [
        f"{over} = asyncio.get_running_loop().create_future()",
        f"{task} = asyncio.create_task({w.helper_call(f, depth)})",
        f"{task}.add_done_callback(lambda task: {over}.set_result(task.result()))",
        *w.leaf(f),
        f"out.append(await {over})",
    ]


@block(0.6)
def thread(w: Writer, f: Function, depth: int) -> list[str]:
    """Only beside calls of the same task: the order of a thread against recorded results is chance."""
    if not f.is_main:
        return w.leaf(f)
    call = f"asyncio.to_thread(crunch, {w.label(f, 'thread')})"
    if w.maybe(0.3):
        return [f"out.append(await {call})", *w.leaf(f)]
    beside = f"await {w.nap()}" if w.maybe(0.6) else f"out.append(await {w.call(f)})"
    task = w.variable("task")
    return [f"{task} = asyncio.create_task({call})", beside, f"out.append(await {task})"]
