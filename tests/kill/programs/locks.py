"""Blocks of asyncio's queues and locks, and of what is iterated or entered: async generators and context managers."""

from __future__ import annotations

from tests.kill.programs.writer import Function, Writer, block, indent


def _words(w: Writer, f: Function, count: int) -> str:
    """Several arguments, as a list."""
    return f"[{', '.join(w.argument(f, number) for number in range(count))}]"


@block(1.2)
def queue_workers(w: Writer, f: Function, depth: int) -> list[str]:
    """Workers take items off a queue until it is empty, and are cancelled."""
    queue, found, workers = w.variable("queue"), w.variable("found"), w.variable("workers")
    made = Function(w.function_name(), None)
    call = w.call(made, "part")
    w.calls += 2
    f.inner.append(
        [
            f"async def {made.name}(queue, found):",
            "    while True:",
            "        part = await queue.get()",
            f"        found.append(await {call})",
            "        queue.task_done()",
        ]
    )
    size = w.chance.choice(("", "", "1"))
    return [
        f"{queue}, {found} = asyncio.Queue({size}), []",
        f"{workers} = [asyncio.create_task({made.name}({queue}, {found})) for _ in range(2)]",
        f"for part in {_words(w, f, 3)}:",
        f"    await {queue}.put(part)",
        f"await {queue}.join()",
        f"for worker in {workers}:",
        "    worker.cancel()",
        f"await asyncio.gather(*{workers}, return_exceptions=True)",
        f"out.append(sorted({found}))",
    ]


@block(0.8)
def queue_pipe(w: Writer, f: Function, depth: int) -> list[str]:
    """One task produces, another consumes until it is told that there is no more."""
    queue, made = w.variable("queue"), w.function_name()
    read = w.read(Function("", None), "part")
    call = w.call(Function("", None), "x")
    w.calls += 2
    f.inner.append(
        [
            f"async def {made}(queue):",
            f"    for part in {_words(w, f, 2)}:",
            f"        await queue.put(await {read})",
            "    await queue.put(None)",
        ]
    )
    task = w.variable("task")
    return [
        f"{queue} = asyncio.Queue(1)",
        f"{task} = asyncio.create_task({made}({queue}))",
        f"while (x := await {queue}.get()) is not None:",
        f"    out.append(await {call})",
        f"await {task}",
    ]


@block(1)
def guarded(w: Writer, f: Function, depth: int) -> list[str]:
    """Tasks that pass a semaphore or a lock one after the other, in whatever order."""
    guard, made = w.variable("guard"), Function(w.function_name(), "n")
    kind = w.chance.choice(("asyncio.Semaphore(1)", "asyncio.Semaphore(2)", "asyncio.Lock()"))
    before = w.leaf(made) if w.maybe(0.4) else []
    inside = indent(w.leaf(made))
    w.calls += 2
    lines = [
        f"async def {made.name}(n, guard):",
        *indent(["out = []", *before, "async with guard:", *inside, "return out"]),
    ]
    w.place(f, lines)
    calls = ", ".join(f"{made.name}({w.argument(f, n)}, {guard})" for n in range(w.chance.choice((2, 3))))
    return [f"{guard} = {kind}", f"out.append(await asyncio.gather({calls}))"]


@block(0.8)
def event(w: Writer, f: Function, depth: int) -> list[str]:
    """Tasks wait for an event that the function sets."""
    ready, made = w.variable("ready"), Function(w.function_name(), "n")
    inside = indent(w.leaf(made))
    w.calls += 1
    w.place(
        f,
        [
            f"async def {made.name}(n, ready):",
            "    out = []",
            "    await ready.wait()",
            *inside,
            "    return out",
        ],
    )
    tasks = w.variable("tasks")
    calls = ", ".join(f"asyncio.create_task({made.name}({w.argument(f, n)}, {ready}))" for n in range(2))
    return [
        f"{ready} = asyncio.Event()",
        f"{tasks} = [{calls}]",
        *w.leaf(f),
        f"{ready}.set()",
        f"out.append(await asyncio.gather(*{tasks}))",
    ]


@block(0.7)
def condition(w: Writer, f: Function, depth: int) -> list[str]:
    changed, made, box = w.variable("changed"), w.function_name(), w.variable("box")
    read = w.read(Function("", "n"))
    w.calls += 1
    w.place(
        f,
        [
            f"async def {made}(n, changed, box):",
            f"    x = await {read}",
            "    async with changed:",
            "        box.append(x)",
            "        changed.notify_all()",
        ],
    )
    tasks = w.variable("tasks")
    calls = ", ".join(f"asyncio.create_task({made}({w.argument(f, n)}, {changed}, {box}))" for n in range(2))
    return [
        f"{changed}, {box} = asyncio.Condition(), []",
        f"{tasks} = [{calls}]",
        f"async with {changed}:",
        f"    await {changed}.wait_for(lambda: len({box}) == 2)",
        f"out.append(sorted({box}))",
        f"await asyncio.gather(*{tasks})",
        *w.leaf(f),
    ]


@block(0.6)
def barrier(w: Writer, f: Function, depth: int) -> list[str]:
    meeting, made = w.variable("meeting"), Function(w.function_name(), "n")
    before, after = w.leaf(made), w.leaf(made)
    w.calls += 2
    lines = [*before, "await meeting.wait()", *after, "return out"]
    w.place(f, [f"async def {made.name}(n, meeting):", "    out = []", *indent(lines)])
    calls = ", ".join(f"{made.name}({w.argument(f, n)}, {meeting})" for n in range(2))
    return [f"{meeting} = asyncio.Barrier(2)", f"out.append(await asyncio.gather({calls}))"]


@block(0.7)
def future(w: Writer, f: Function, depth: int) -> list[str]:
    """A future that another task resolves."""
    promise, made = w.variable("promise"), w.function_name()
    read = w.read(Function("", "n"))
    w.place(f, [f"async def {made}(n, promise):", f"    promise.set_result(await {read})"])
    task = w.variable("task")
    return [
        f"{promise} = asyncio.get_running_loop().create_future()",
        f"{task} = asyncio.create_task({made}({w.argument(f, 0)}, {promise}))",
        *w.leaf(f),
        f"out.append([await {promise}, await {task}])",
    ]


@block(1)
def generator(w: Writer, f: Function, depth: int) -> list[str]:
    """An async generator whose body makes calls; sometimes nobody takes all of it."""
    made = Function(w.function_name(), "n")
    read = w.read(made, "page")
    w.calls += 1
    lines = [f"async def {made.name}(n):", "    for page in range(2):", f"        yield await {read}"]
    if w.maybe(0.4):
        lines = [lines[0], "    try:", *indent(lines[1:]), "    finally:", f"        await {w.call(made)}"]
    w.place(f, lines)
    pages, x = w.variable("pages"), w.variable("x")
    take = [f"    async for {x} in {pages}:", f"        out.append(await {w.call(f, x)})"]
    if w.maybe(0.4):
        take.append("        break")
    call = f"{made.name}({w.argument(f, 0)})"
    if len(take) == 3 or w.maybe(0.5):
        return [f"async with contextlib.aclosing({call}) as {pages}:", *take]
    return [f"async for {x} in {call}:", f"    out.append(await {w.call(f, x)})"]


@block(0.8)
def context_manager(w: Writer, f: Function, depth: int) -> list[str]:
    """Calls on the way in and on the way out."""
    made = Function(w.function_name(), "n")
    enter, leave = w.call(made), w.call(made)
    given = w.argument(f, 0)
    if w.maybe(0.5):
        w.place(
            f,
            [
                "@contextlib.asynccontextmanager",
                f"async def {made.name}(n):",
                f"    held = await {enter}",
                "    try:",
                "        yield held",
                "    finally:",
                f"        await {leave}",
            ],
        )
        opened = f"{made.name}({given})"
    else:
        name = f"Room{w.number()}"
        w.parts.append(
            [
                f"class {name}:",
                "    def __init__(self, n):",
                "        self.n = n",
                "",
                "    async def __aenter__(self):",
                "        n = self.n",
                f"        return await {enter}",
                "",
                "    async def __aexit__(self, *_):",
                "        n = self.n",
                f"        await {leave}",
            ]
        )
        opened = f"{name}({given})"
    held = w.variable("held")
    inside = w.leaf(f) if depth == 0 or w.maybe(0.5) else w.block(f, depth - 1)
    if w.maybe(0.3):
        stack = w.variable("stack")
        return [
            f"async with contextlib.AsyncExitStack() as {stack}:",
            f"    {held} = await {stack}.enter_async_context({opened})",
            *indent(inside),
            f"out.append({held})",
        ]
    return [f"async with {opened} as {held}:", *indent(inside), f"out.append({held})"]
