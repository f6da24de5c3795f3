"""`survives_crashes`: kills an agent at every crash point and asserts that its result and effects stay the same.

    def test_the_refund_survives():
        survives_crashes(support, "where is order 42?", effects=lambda: bank.refunds, reset=bank.clear)

The agent runs once without a kill, which shows its result and every crash point that it passes. Then it runs once for
each of them: its worker is killed there, another takes over, and the result and the effects must be the same as without
the kill. Time is virtual, the store is in memory, and nothing is left behind.

It observes every real call of every tool, by its declared effect. A socket, process or file that the agent's own code
opens is an error (`App(on_undurable="warn")` turns that into a warning). Other effects of code outside a tool are
invisible to it; `effects` is a witness for them: a function that returns the state of the outside world (what was sent,
what was booked), compared with that of the run without a kill. `reset` restores that world before each run.

An unsafe call that was interrupted needs a person's decision. Here the kit takes the role of that person, and decides
truthfully.
"""

from __future__ import annotations

import asyncio
import copy
import functools
import inspect
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import Any, Literal

from holdfast.agents.agents import Agent
from holdfast.agents.app_registry import AppRegistry
from holdfast.agents.conversation import draft_message
from holdfast.agents.sessions import SessionAgent
from holdfast.errors import InvalidMove, InvalidSetting
from holdfast.model.inbox import BatchDraft
from holdfast.model.jobs import JobDraft
from holdfast.runtime.app import App
from holdfast.testing.survival import judge
from holdfast.testing.survival.facts import PassedPoint, RunResult, RunSettings
from holdfast.testing.survival.play import simulate_run
from holdfast.testing.survival.report import (
    CrashPointRow,
    DidNotSurvive,
    Fault,
    Survival,
    make_failure,
    make_unkilled_error,
)

__all__ = [
    "CrashPointRow",
    "DidNotSurvive",
    "Fault",
    "Survival",
    "survives_crashes",
    "survives_crashes_async",
]

TWICE = (
    "Nobody was killed yet. Put its world back with reset=…, take chance and time from hf.random() and hf.now(), "
    "or say with compare=… what of the result must be the same."
)

RETURNED = (
    "A result must follow from what is recorded. "
    "If a part of it may differ, say with compare=… what must be the same."
)


def survives_crashes(
    agent: Agent[..., Any] | SessionAgent,
    /,
    *args: Any,
    effects: Callable[[], Any] | None = None,
    reset: Callable[[], Any] | None = None,
    signals: Mapping[str, Any] | Iterable[tuple[str, Any]] = (),
    approve: Literal["yes", "no"] = "yes",
    answers: Mapping[str, Any] | None = None,
    compare: Callable[[Any], Any] = lambda result: result,
    kill: Literal["never", "every", "twice"] = "every",
    **kwargs: Any,
) -> Survival:
    """Assert that the agent, called with these arguments, gives the same result wherever its process is killed; or
    raise DidNotSurvive. An assistant gets a message, and its whole session must be the same.

    effects: a witness of the outside world, called after each run. reset: called before each. signals: sent to every
    job that waits for one. approve: the decision on every approval. answers: the answer to each question of `hf.ask`.
    compare: the part of the result that must be the same. kill: "twice" also kills the worker that takes over, at every
    point that it passes; "never" only runs the agent without kills.
    """
    __tracebackhide__ = True
    _must_not_run_a_loop()
    app = _find_app(agent)
    pairs = signals.items() if isinstance(signals, Mapping) else signals
    draft, message = _draft_job(agent, args, kwargs)
    agents: list[Agent[..., Any] | SessionAgent] = [*app.agents.values(), *app.sessions.values()]
    setting = RunSettings(
        programs=app.programs(),
        queues=tuple(sorted({registered.queue for registered in agents})),
        draft=draft,
        message=message,
        signals=tuple((name, body) for name, body in pairs),
        approve=approve == "yes",
        answers=tuple((answers or {}).items()),
        strict=bool(getattr(app, "_strict", False)),
        on_undurable=app.choose_on_undurable("error") if isinstance(app, App) else "error",
    )
    keyless = frozenset(name for name, tool in app.tools.items() if tool.signature.key_parameter is None)
    return _Trial(agent, setting, effects, reset, compare, keyless).check(kill)


def _draft_job(
    agent: Agent[..., Any] | SessionAgent, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> tuple[JobDraft, BatchDraft | None]:
    if isinstance(agent, Agent):
        return agent.draft(agent.signature.bind(args, kwargs)), None
    if len(args) != 1 or kwargs:
        msg = f"{agent!r} is given one message"
        raise InvalidSetting(msg, hint='Say survives_crashes(assistant, "hello").')
    message, draft = draft_message(agent, "survival", args[0])
    return draft, message


async def survives_crashes_async(
    agent: Agent[..., Any] | SessionAgent, /, *args: Any, **options: Any
) -> Survival:
    """`survives_crashes` for a test that is `async def`: runs beside its event loop, on a thread."""
    return await asyncio.to_thread(functools.partial(survives_crashes, agent, *args, **options))


class _Run:
    """One simulated run, and the state of the outside world after it."""

    def __init__(self, played: RunResult, outside: Any) -> None:
        self.played = played
        self.outside = outside


class _Trial:
    def __init__(
        self,
        agent: Agent[..., Any] | SessionAgent,
        setting: RunSettings,
        effects: Callable[[], Any] | None,
        reset: Callable[[], Any] | None,
        compare: Callable[[Any], Any],
        keyless: frozenset[str],
    ) -> None:
        self._agent = agent
        self._setting = setting
        self._effects = effects
        self._reset = reset
        self._compare = compare
        self._keyless = keyless

    def check(self, kill: str) -> Survival:
        __tracebackhide__ = True
        calm = self._run_unkilled()
        rows: list[CrashPointRow] = []
        found: list[tuple[CrashPointRow, Fault]] = []
        apart: list[tuple[CrashPointRow, judge.OutsideDifference]] = []
        cleared: set[str] = set()
        plays: list[tuple[PassedPoint, ...]] = [(cut,) for cut in calm.played.passed[0] if kill != "never"]
        for cuts in plays:
            run = self._run(cuts)
            if kill == "twice" and len(cuts) == 1:
                plays += [(*cuts, cut) for passed in run.played.passed[1:] for cut in passed]
            faults = self._find_faults(calm, run)
            outside = self._compare_outside(calm, run) if not faults else None
            faults_seen = [fault.what for fault in faults] + ([outside.what] if outside else [])
            outcome = "; ".join(faults_seen) or judge.describe_outcome(calm.played, run.played, self._keyless)
            row = _make_row(cuts, run.played, outcome, survived=not faults_seen)
            rows.append(row)
            found += [(row, fault) for fault in faults]
            apart += [(row, outside)] if outside else []
            cleared |= set() if faults_seen else judge.find_repeated_tools(calm.played, run.played)
        if apart:
            effects = {call.tool: call.effect for call in calm.played.calls}
            hint = judge.find_blamed_tools([outside for _, outside in apart], frozenset(cleared), effects)
            found += [(row, Fault(apart[0][1].what, hint)) for row, _ in apart]
        survival = Survival(self._agent.name, tuple(rows))
        if found:
            raise make_failure(survival, found)
        return survival

    def _run_unkilled(self) -> _Run:
        """The run without a kill, which must end, and give the same result a second time."""
        __tracebackhide__ = True
        calm = self._run()
        if calm.played.stopped is not None:
            fault = judge.find_stop_reason(calm.played)
            raise make_unkilled_error(self._agent.name, "does not come to its end", [fault])
        again = self._run()
        faults = self._find_faults(calm, again)
        outside = self._compare_outside(calm, again)
        faults += [Fault(outside.what)] if outside else []
        if faults:
            faults[-1] = Fault(faults[-1].what, TWICE)
            raise make_unkilled_error(self._agent.name, "does not come out the same twice", faults)
        return calm

    def _run(self, cuts: Sequence[PassedPoint] = ()) -> _Run:
        _call_user_function(self._reset)
        played = simulate_run(self._setting, cuts)
        return _Run(played, copy.deepcopy(_call_user_function(self._effects)))

    def _find_faults(self, calm: _Run, run: _Run) -> list[Fault]:
        before, after = calm.played, run.played
        faults = list(judge.find_duplicates(before.calls, after.calls))
        if after.stopped is not None:
            return [*faults, judge.find_stop_reason(after)]
        faults += judge.find_missing(before.calls, after.calls)
        first, second = (self._compare(self._decode_output(played.output)) for played in (before, after))
        if first != second:
            faults.append(Fault(f"it returned {second!r} instead of {first!r}", RETURNED))
        return faults

    def _decode_output(self, output: Any) -> Any:
        return self._agent.signature.result(output) if isinstance(self._agent, Agent) else output

    @staticmethod
    def _compare_outside(calm: _Run, run: _Run) -> judge.OutsideDifference | None:
        return judge.compare_outside(calm.outside, run.outside, calm.played, run.played)


def _make_row(
    cuts: Sequence[PassedPoint], played: RunResult, outcome: str, *, survived: bool
) -> CrashPointRow:
    reached = [*played.reached, *cuts[len(played.reached) :]]
    points, steps = " then ".join(cut.label for cut in cuts), [cut.step for cut in reached if cut.step]
    return CrashPointRow(points, " then ".join(steps), outcome, survived)


def _call_user_function(function: Callable[[], Any] | None) -> Any:
    """The result of a user's function, sync or async."""
    result = None if function is None else function()
    return asyncio.run(_await_result(result)) if inspect.isawaitable(result) else result


async def _await_result(awaitable: Awaitable[Any]) -> Any:
    return await awaitable


def _find_app(agent: Agent[..., Any] | SessionAgent) -> AppRegistry:
    app = getattr(getattr(agent, "_host", None), "__self__", None)
    if not isinstance(app, AppRegistry):
        msg = f"{agent!r} is no agent of an application"
        raise InvalidSetting(msg, hint="Give the function that `@app.agent` or `@hf.agent` made.")
    return app


def _must_not_run_a_loop() -> None:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return
    msg = "survives_crashes inside a running event loop"
    raise InvalidMove(msg, hint="In an `async def` test say `await survives_crashes_async(…)`.")
