"""`survives_crashes`: an agent is killed at every point at which a process can die, and must come out the same.

    def test_the_refund_survives():
        survives_crashes(support, "where is order 42?", effects=lambda: bank.refunds, reset=bank.clear)

The agent runs once undisturbed, which shows its result and every crash point that it passes. Then it runs once for each
of them: its worker is killed there, another takes over, and the result and everything that was done must be what they
were. Time is virtual, the store is in memory, and nothing is left behind.

What it sees by itself is every real call of every tool, by its declared effect. A socket, process or file that the
agent's own code opens is an error (`App(on_undurable="warn")` says otherwise). Whatever else code does without a tool
it cannot see; `effects` is a witness for that: whatever describes the outside world (what was sent, what was booked),
compared with the undisturbed run. `reset` puts that world back before each run.

A call that is unsafe and was cut off needs a person. Here the kit plays the person, and says the truth.
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
from holdfast.testing.survival.facts import Passed, Played, Setting
from holdfast.testing.survival.play import play
from holdfast.testing.survival.report import DidNotSurvive, Fault, Row, Survival, failure, make_unkilled_error

__all__ = ["DidNotSurvive", "Fault", "Row", "Survival", "survives_crashes", "survives_crashes_async"]

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
    """The agent, called like this, comes out the same wherever its process is killed; or DidNotSurvive says how not.
    An assistant is given a message, and everything that is said in its session must be the same.

    effects: a witness of the outside world, asked after each run. reset: called before each. signals: sent to whichever
    job waits for one. approve: what is said to every approval. answers: what is said to each question of `hf.ask`.
    compare: what of the result must be the same. kill: "twice" kills the worker that takes over as well, at every point
    that it passes; "never" only plays it undisturbed.
    """
    __tracebackhide__ = True
    _must_not_run_a_loop()
    app = _app_of(agent)
    pairs = signals.items() if isinstance(signals, Mapping) else signals
    draft, message = _asked_for(agent, args, kwargs)
    everybody: list[Agent[..., Any] | SessionAgent] = [*app.agents.values(), *app.sessions.values()]
    setting = Setting(
        programs=app.programs(),
        queues=tuple(sorted({one.queue for one in everybody})),
        draft=draft,
        message=message,
        signals=tuple((name, body) for name, body in pairs),
        approve=approve == "yes",
        answers=tuple((answers or {}).items()),
        strict=bool(getattr(app, "_strict", False)),
        on_undurable=app.choose_on_undurable("error") if isinstance(app, App) else "error",
    )
    keyless = frozenset(name for name, tool in app.tools.items() if tool.signature.key_parameter is None)
    return _Trial(agent, setting, effects, reset, compare, keyless).held(kill)


def _asked_for(
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
    """`survives_crashes`, from a test that is `async def`: beside its event loop, on a thread."""
    return await asyncio.to_thread(functools.partial(survives_crashes, agent, *args, **options))


class _Run:
    """A play, and what the witness said after it."""

    def __init__(self, played: Played, outside: Any) -> None:
        self.played = played
        self.outside = outside


class _Trial:
    def __init__(
        self,
        agent: Agent[..., Any] | SessionAgent,
        setting: Setting,
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

    def held(self, kill: str) -> Survival:
        __tracebackhide__ = True
        calm = self._calm()
        rows: list[Row] = []
        found: list[tuple[Row, Fault]] = []
        apart: list[tuple[Row, judge.OutsideDifference]] = []
        cleared: set[str] = set()
        plays: list[tuple[Passed, ...]] = [(cut,) for cut in calm.played.passed[0] if kill != "never"]
        for cuts in plays:
            run = self._run(cuts)
            if kill == "twice" and len(cuts) == 1:
                plays += [(*cuts, cut) for passed in run.played.passed[1:] for cut in passed]
            faults = self._faults(calm, run)
            outside = self._outside(calm, run) if not faults else None
            said = [fault.what for fault in faults] + ([outside.what] if outside else [])
            outcome = "; ".join(said) or judge.outcome(calm.played, run.played, self._keyless)
            row = _row(cuts, run.played, outcome, survived=not said)
            rows.append(row)
            found += [(row, fault) for fault in faults]
            apart += [(row, outside)] if outside else []
            cleared |= set() if said else judge.ran_again(calm.played, run.played)
        if apart:
            effects = {call.tool: call.effect for call in calm.played.calls}
            hint = judge.find_blamed_tools([outside for _, outside in apart], frozenset(cleared), effects)
            found += [(row, Fault(apart[0][1].what, hint)) for row, _ in apart]
        survival = Survival(self._agent.name, tuple(rows))
        if found:
            raise failure(survival, found)
        return survival

    def _calm(self) -> _Run:
        """The undisturbed run, which must come to its end, and come out the same a second time."""
        __tracebackhide__ = True
        calm = self._run()
        if calm.played.stopped is not None:
            fault = judge.find_stop_reason(calm.played)
            raise make_unkilled_error(self._agent.name, "does not come to its end", [fault])
        again = self._run()
        faults = self._faults(calm, again)
        outside = self._outside(calm, again)
        faults += [Fault(outside.what)] if outside else []
        if faults:
            faults[-1] = Fault(faults[-1].what, TWICE)
            raise make_unkilled_error(self._agent.name, "does not come out the same twice", faults)
        return calm

    def _run(self, cuts: Sequence[Passed] = ()) -> _Run:
        _said(self._reset)
        played = play(self._setting, cuts)
        return _Run(played, copy.deepcopy(_said(self._effects)))

    def _faults(self, calm: _Run, run: _Run) -> list[Fault]:
        before, after = calm.played, run.played
        faults = list(judge.duplicates(before.calls, after.calls))
        if after.stopped is not None:
            return [*faults, judge.find_stop_reason(after)]
        faults += judge.missing(before.calls, after.calls)
        first, second = (self._compare(self._result(one.output)) for one in (before, after))
        if first != second:
            faults.append(Fault(f"it returned {second!r} instead of {first!r}", RETURNED))
        return faults

    def _result(self, output: Any) -> Any:
        return self._agent.signature.result(output) if isinstance(self._agent, Agent) else output

    @staticmethod
    def _outside(calm: _Run, run: _Run) -> judge.OutsideDifference | None:
        return judge.outside(calm.outside, run.outside, calm.played, run.played)


def _row(cuts: Sequence[Passed], played: Played, outcome: str, *, survived: bool) -> Row:
    reached = [*played.reached, *cuts[len(played.reached) :]]
    points, steps = " then ".join(cut.label for cut in cuts), [cut.step for cut in reached if cut.step]
    return Row(points, " then ".join(steps), outcome, survived)


def _said(function: Callable[[], Any] | None) -> Any:
    """What a function of the user's gave, whichever kind of function it is."""
    said = None if function is None else function()
    return asyncio.run(_awaited(said)) if inspect.isawaitable(said) else said


async def _awaited(said: Awaitable[Any]) -> Any:
    return await said


def _app_of(agent: Agent[..., Any] | SessionAgent) -> AppRegistry:
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
