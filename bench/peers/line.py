"""The line between the harness and a contestant in another process. Standard library only: peers import it too.

A program is started with the name of a piece of work and a JSON object that says where and how much. It says `ready`,
then reads one word a line, does what the word says and answers `done`, with JSON when there is something to tell:

    begin       a lap is about to start
    operation   the work, durable when `done` is said
    end         the lap is over
    count       how much the database holds: {"jobs": …, "steps": …}

It ends when its input does, and so do the workers it started: nobody outlives the harness.
"""

from __future__ import annotations

import asyncio
import gc
import inspect
import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

Told = Any  # a SimpleNamespace: what the harness said, by name


class Work:
    """One piece of work as one peer does it. Every method may be a coroutine; then all of them are awaited."""

    def __init__(self, told: Told) -> None:
        self.told = told

    def open(self) -> Any: ...

    def begin(self) -> Any: ...

    def operation(self, number: int) -> Any:
        raise NotImplementedError

    def end(self) -> Any: ...

    def count(self) -> Any:
        return {}

    def close(self) -> Any: ...


def main(works: Mapping[str, Callable[[Told], Work]]) -> None:
    """The work named on the command line is done as the lines say."""
    name, told = sys.argv[1], SimpleNamespace(**json.loads(sys.argv[2]))
    work = works[name](told)
    if inspect.iscoroutinefunction(work.operation):
        asyncio.run(_serve_async(work))
    else:
        _serve(work)


def _serve(work: Work) -> None:
    work.open()
    say("ready")
    number = 0
    for line in sys.stdin:
        word = line.strip()
        number = 0 if word == "begin" else number
        answer = work.operation(number) if word == "operation" else getattr(work, word)()
        number += word == "operation"
        say("done", answer)
    work.close()
    _exit_at_once()


async def _serve_async(work: Work) -> None:
    loop = asyncio.get_running_loop()
    await _await_result(work.open())
    say("ready")
    number = 0
    while line := await loop.run_in_executor(None, sys.stdin.readline):
        word = line.strip()
        number = 0 if word == "begin" else number
        answer = work.operation(number) if word == "operation" else getattr(work, word)()
        number += word == "operation"
        say("done", await _await_result(answer))
    await _await_result(work.close())
    _exit_at_once()


def _exit_at_once() -> None:
    """At once: pools and pollers of peers may have threads, and tasks, that never end."""
    sys.stdout.flush()
    os._exit(0)


async def _await_result(answer: Any) -> Any:
    return await answer if inspect.isawaitable(answer) else answer


def say(word: str, answer: Any = None) -> None:
    sys.stdout.write(f"{word}\n" if answer is None else f"{word} {json.dumps(answer)}\n")
    sys.stdout.flush()


# ── workers ───────────────────────────────────────────────────────────────────────────────────────


class Workers:
    """Worker processes of a peer: the same program, told to do the work `worker`."""

    def __init__(self, told: Told, count: int) -> None:
        self.told = told
        self.count = count
        self.running: list[subprocess.Popen[str]] = []

    def start(self) -> None:
        for nth in range(self.count):
            told = json.dumps(vars(self.told) | {"nth": nth})
            command = [sys.executable, str(Path(sys.argv[0]).resolve()), "worker", told]
            pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
            self.running.append(subprocess.Popen(command, **pipes))
        for worker in self.running:
            assert worker.stdout is not None
            said = worker.stdout.readline()
            if said != "ready\n":
                raise RuntimeError(f"a worker of {sys.argv[0]} did not start: {said!r}")

    def stop(self) -> None:
        for worker in self.running:
            worker.kill()
            worker.wait()


def end_with_input() -> None:
    """This process ends, at once, when the one that started it does."""

    def watch() -> None:
        sys.stdin.read()
        os._exit(0)

    threading.Thread(target=watch, daemon=True).start()


def until(true: Callable[[], bool], every_s: float, limit_s: float = 300.0) -> None:
    """Polled until it is so. Peers tell nobody that work is done, so somebody has to ask."""
    deadline = time.monotonic() + limit_s
    while not true():
        if time.monotonic() > deadline:
            raise TimeoutError(f"not done after {limit_s} s")
        time.sleep(every_s)


# ── many writers ──────────────────────────────────────────────────────────────────────────────────


class Storm(Work):
    """Many processes, forked before any thread is there, write to one file at the same time.

    A subclass says how one of them opens (`writer`), which gives what writes once, durably. What `writer` imports and
    opens is outside the clock, and so is one write of each, numbered as if it were the last: a process that was forked
    copies every page that it touches for the first time, which is the harness's doing. When all are ready one barrier
    lets all of them go, and a wait begins when its write is asked for.
    """

    def writer(self, nth: int) -> Callable[[int], object]:
        raise NotImplementedError

    def begin(self) -> None:
        gc.freeze()  # a collector that touches every object would copy every page into every child
        closed, self.barrier = os.pipe()
        self.children = [self._fork_writer(nth, closed) for nth in range(self.told.writers)]
        os.close(closed)
        for answers in self.children:
            assert answers.readline() == "ready\n"

    def _fork_writer(self, nth: int, closed: int) -> Any:
        answer_out, answer_in = os.pipe()
        if os.fork() == 0:
            os.close(self.barrier)  # only the parent may hold it, or nobody would see it open
            try:
                self._write(nth, closed, os.fdopen(answer_in, "w"))
            finally:
                os._exit(0)
        os.close(answer_in)
        return os.fdopen(answer_out)

    def _write(self, nth: int, closed: int, answers: Any) -> None:
        write = self.writer(nth)
        write(self.told.each)
        answers.write("ready\n")
        answers.flush()
        os.read(closed, 1)
        waits, refused = [], []
        for number in range(self.told.each):
            began = time.perf_counter()
            try:
                write(number)
                waits.append(time.perf_counter() - began)
            except Exception as failed:
                refused.append(repr(failed)[:200])
        answers.write(json.dumps({"waits": waits, "refused": refused}) + "\n")
        answers.flush()

    def operation(self, number: int) -> dict[str, Any]:
        began = time.perf_counter()
        os.close(self.barrier)
        found = [json.loads(answers.readline()) for answers in self.children]
        took_s = time.perf_counter() - began
        waits = [wait for each in found for wait in each["waits"]]
        refused = [why for each in found for why in each["refused"]]
        longest_s = max(waits, default=took_s)
        return {
            "accepted": len(waits),
            "refused": len(refused),
            "why": refused[:1],
            "longest_s": longest_s,
            "took_s": took_s,
        }

    def end(self) -> None:
        for answers in self.children:
            answers.close()
        for _ in self.children:
            os.wait()
