"""Comparison of a run with a kill to the run without: duplicate calls, missing calls, another result."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import msgspec

from holdfast.model.side_effects import Effect
from holdfast.model.stall_report import summarize_report
from holdfast.testing.survival.facts import MadeCall, RunResult
from holdfast.testing.survival.report import Fault

DRIFT: Final = (
    "An agent's code must go the same way again: take chance and time from hf.random() and hf.now(), "
    "and put everything else that may change into a tool."
)
STALLED: Final = (
    "What an agent's code waits for must be durable: put it into a tool or step, "
    "or wait for a signal with hf.wait."
)
STOPPED: Final = {
    "signal": Fault(
        "it waits for a signal that nobody sends", 'Give the signals: signals={"paid:42": {"cents": 100}}.'
    ),
    "budget": Fault("its budget is used up"),
}
OWN_CODE: Final = (
    "No tool ran twice there, so the agent's own code did it. That code runs again whenever the job is resumed: "
    "move what it does into a tool."
)


class OutsideDifference(msgspec.Struct, frozen=True):
    """The outside world differs from the run without a kill. `suspects` are the tools that ran more often."""

    what: str
    suspects: frozenset[str]


def find_duplicates(calm: Sequence[MadeCall], killed: Sequence[MadeCall]) -> Iterator[Fault]:
    """Calls that happened more often than without a kill: the same call again, or one more of a tool."""
    before, after = _count_effects(calm), _count_effects(killed)
    reported = set()
    for same, times in after.items():
        if same in before and times > before[same]:
            reported.add(same[0])
            made = next(call for call in killed if call.same == same)
            yield Fault(
                f"{made.said} happened {_format_times(times)} instead of {before[same]}",
                _explain_duplicate(made),
            )
    before_tools, after_tools = _count_by_tool(before), _count_by_tool(after)
    for tool, times in after_tools.items():
        if tool not in reported and times > before_tools[tool]:
            calls = ", ".join(call.said for call in killed if call.tool == tool)
            hint = "" if before_tools[tool] else DRIFT
            yield Fault(
                f"{tool} happened {_format_times(times)} instead of {before_tools[tool]}: {calls}", hint
            )


def find_missing(calm: Sequence[MadeCall], killed: Sequence[MadeCall]) -> Iterator[Fault]:
    """Calls that happened less often than without a kill."""
    before, after = _count_by_tool(_count_effects(calm)), _count_by_tool(_count_effects(killed))
    for tool, times in before.items():
        if after[tool] < times:
            yield Fault(f"{tool} happened {_format_times(after[tool])} instead of {times}")


def find_stop_reason(played: RunResult) -> Fault:
    """Why the job did not end."""
    if played.stopped == "drift":
        report = played.report or {}
        recorded = ", ".join(record["name"] for record in report.get("recorded", ()))
        attempted = report.get("attempted")
        if attempted is None:
            return Fault(f"it does not fit its journal: {report.get('why', report)}")
        call = MadeCall(attempted["name"], attempted["args"], "", Effect.UNSAFE, relaunch=False).said
        return Fault(
            f"the code went another way: {recorded} is on record, and it asked for {call} instead", DRIFT
        )
    if played.stopped == "dead_letter":
        cause: dict[str, Any] = (played.report or ({},))[-1]
        error = cause.get("error") or {}
        text = f"{error.get('type', '')}: {error.get('message', cause.get('why', ''))}".removeprefix(": ")
        return Fault(f"it failed: {text}", str(error.get("hint", "")))
    if played.stopped == "stalled":
        return Fault(f"it made no progress: {summarize_report(played.report)}", STALLED)
    known = STOPPED.get(str(played.stopped))
    return known or Fault(f"it did not come to its end: {played.stopped}")


def compare_outside(calm: Any, killed: Any, before: RunResult, after: RunResult) -> OutsideDifference | None:
    """The difference between the witness's state and its state without a kill."""
    if calm == killed:
        return None
    return OutsideDifference(
        f"the outside world differs: {_describe_difference(calm, killed)}", find_repeated_tools(before, after)
    )


def find_blamed_tools(
    found: Sequence[OutsideDifference], cleared: frozenset[str], effects: Mapping[str, Effect]
) -> str:
    """The cause: the tools that ran more often wherever the outside differs; if there are none for some difference, the
    agent's own code.

    `cleared` are tools that ran more often in another run, without a difference outside.
    """
    if not all(difference.suspects for difference in found):
        return OWN_CODE
    common = frozenset.intersection(*(difference.suspects for difference in found))
    suspects = common or frozenset.union(*(difference.suspects for difference in found))
    suspects = suspects - cleared or suspects
    by_effect: dict[Effect, list[str]] = {}
    for tool in sorted(suspects):
        by_effect.setdefault(effects[tool], []).append(tool)
    return " ".join(_describe_blame(tools, effect) for effect, tools in by_effect.items())


def describe_outcome(calm: RunResult, killed: RunResult, keyless: frozenset[str]) -> str:
    """What recovery did, in words."""
    if not killed.reached:
        return "not reached this time"
    actions = [*killed.said]
    actions += [
        f"{tool} was made again; it takes no key"
        if tool in keyless
        else f"{tool} was sent again under its key"
        for tool in _find_resent_tools(killed)
    ]
    again = find_repeated_tools(calm, killed)
    reads = {call.tool for call in killed.calls if call.effect is Effect.READ_ONLY}
    actions += [f"{tool} was read again" for tool in sorted(again & reads)]
    launched = {call.tool for call in killed.calls if call.relaunch}
    actions += [f"{tool} was launched again" for tool in sorted(again & launched)]
    return "; ".join(dict.fromkeys(actions)) or "went on"


# ── counting ──────────────────────────────────────────────────────────────────────────────────────


def _count_effects(calls: Sequence[MadeCall]) -> Counter[tuple[str, bytes]]:
    """How often each call took effect, by its declared class: an idempotent call does so once per key."""
    seen: set[tuple[str, bytes, str]] = set()
    done: Counter[tuple[str, bytes]] = Counter()
    for call in calls:
        if call.effect is Effect.READ_ONLY or call.relaunch or call.did_nothing:
            continue
        keyed = (*call.same, call.key)
        if call.effect is Effect.IDEMPOTENT and keyed in seen:
            continue
        seen.add(keyed)
        done[call.same] += 1
    return done


def _count_by_tool(done: Counter[tuple[str, bytes]]) -> Counter[str]:
    tools: Counter[str] = Counter()
    for (tool, _), times in done.items():
        tools[tool] += times
    return tools


def find_repeated_tools(before: RunResult, after: RunResult) -> frozenset[str]:
    """Tools that really ran more often than without a kill, whatever their declared class."""
    calm, killed = (Counter(call.tool for call in played.calls) for played in (before, after))
    return frozenset(tool for tool, times in killed.items() if times > calm[tool])


def _find_resent_tools(played: RunResult) -> list[str]:
    keys = Counter((call.tool, call.key) for call in played.calls if call.effect is Effect.IDEMPOTENT)
    return sorted({tool for (tool, _), times in keys.items() if times > 1})


# ── messages ──────────────────────────────────────────────────────────────────────────────────────


def _explain_duplicate(made: MadeCall) -> str:
    if made.effect is Effect.VERIFIABLE:
        return f"{made.tool} is verifiable: its probe did not find the first one."
    return ""


def _describe_blame(tools: Sequence[str], effect: Effect) -> str:
    subject = f"{' and '.join(tools)} {'is' if len(tools) == 1 else 'are'}"
    if effect is Effect.READ_ONLY:
        return f"{subject} declared read_only and ran again there: what does something is not read_only."
    if effect is Effect.IDEMPOTENT:
        return f"{subject} declared idempotent, ran again there under the same key, and did it again: hand the key on."
    return f"{subject} declared {effect} and ran again there."


def _describe_difference(calm: Any, killed: Any) -> str:
    if isinstance(calm, Mapping) and isinstance(killed, Mapping):
        keys = [key for key in {**calm, **killed} if calm.get(key) != killed.get(key)]
        return ", ".join(f"{key!r}: {killed.get(key, 0)!r} instead of {calm.get(key, 0)!r}" for key in keys)
    if isinstance(calm, list | tuple) and isinstance(killed, list | tuple):
        before, after = Counter(map(repr, calm)), Counter(map(repr, killed))
        changed = [item for item in {**before, **after} if before[item] != after[item]]
        if changed:
            return ", ".join(f"{after[item]} × {item} instead of {before[item]}" for item in changed)
    return f"{killed!r} instead of {calm!r}"


def _format_times(number: int) -> str:
    return "once" if number == 1 else f"{number} times"
