"""Verdict: what is wrong with a play, judged by the oracle and the receivers' logs."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final, Literal

from holdfast.model.crash_suspects import CLEARED, find_parent
from holdfast.model.events import LlmResponded, StepFinished
from tests.kill.programs.oracle import Outcome
from tests.kill.programs.receivers import DEATHS, READS, find_poison, is_failing, label_of
from tests.kill.programs.stage import Played

Failing = Literal[
    "parked",
    "stuck",
    "outcome",
    "effects",
    "reads",
    "attempts",
    "deaths",
    "threads",
    "key",
    "slow",
    "snapshot",
    "error",
]

SLOWER_S: Final = 100.0
"""So much longer than the oracle a play may take by itself: other latencies, polls, retries."""

RECOVERY_S: Final = 1300.0
"""So much longer for each fault: a lease runs out, a process is frozen, a receiver has to be quiet."""


RETRIES_S: Final = 700.0
"""So much longer for each call that fails: it waits for its next attempts, or until its receiver is quiet."""


SUSPECT_AT: Final = 2
KILLS_MAX: Final = 3
"""A job runs alone after so many deaths, and so many kills alone convict it."""

PROGRESS: Final = frozenset(
    "tool_returned tool_failed llm_responded checkpoint_saved turn_committed child_started timer_fired "
    "signal_taken".split()
)
NOT_DRIVEN: Final = frozenset({"", "job_claimed", "job_released", "job_requeued"})
"""What follows a claim by a worker that has driven nothing yet: it handed the job over, gave it back, or died."""


@dataclass(frozen=True)
class Failure:
    """One thing that is wrong. `kind` stays the same while a program shrinks."""

    kind: Failing
    text: str

    def __str__(self) -> str:
        return f"{self.kind}: {self.text}"


def judge(outcome: Outcome, played: Played) -> list[Failure]:
    """Everything that is wrong with the play; nothing, if it is as the oracle says."""
    return list(_find(outcome, played))


def _find(outcome: Outcome, played: Played) -> Iterator[Failure]:
    for complaint in played.complaints:
        yield Failure("error", complaint)
    for fault in played.receivers.faults:
        yield Failure("key", fault)
    if played.stopped is not None:
        kind: Failing = "stuck" if played.stopped.startswith("stuck") else "parked"
        yield Failure(kind, f"{played.stopped} {played.report or ''}")
    elif (played.output, played.error) != (outcome.output, outcome.error):
        yield Failure(
            "outcome",
            f"ended with {_ending(played.output, played.error)} instead of "
            f"{_ending(outcome.output, outcome.error)} {played.report or ''}",
        )
    if played.beside != outcome.beside:
        yield Failure("outcome", f"the job beside ended with {played.beside} instead of {outcome.beside}")
    yield from _wrong_deaths(played)
    for effect, expected in outcome.done.items():
        done = played.receivers.done(effect)
        more, less = done - expected, expected - done
        if more:
            yield Failure("effects", f"{effect} too often: {_listed(more)}")
        if less and played.stopped is None:
            yield Failure("effects", f"{effect} missing: {_listed(less)}")
    yield from _repeated_reads(outcome, played)
    recoveries = len(played.struck) + len(played.receivers.blocked) + len(played.receivers.deaths)
    for (tool, label), times in (played.receivers.sent() - outcome.sent).items():
        if times > recoveries:
            most = outcome.sent[tool, label]
            yield Failure("attempts", f"{tool}({label!r}) was sent {most + times} times instead of {most}")
    allowed = outcome.seconds + SLOWER_S + RECOVERY_S * recoveries + RETRIES_S * len(outcome.sent)
    if played.stopped is None and played.seconds > allowed:
        yield Failure("slow", f"{played.seconds:.0f} s instead of {outcome.seconds:.0f} s")


def _wrong_deaths(played: Played) -> Iterator[Failure]:
    """A call that always ends its process costs as many of them as the rules say; a job runs alone after two deaths
    without progress, and not before; a child process drives one job."""
    for poison, expected in DEATHS.items():
        workers = [worker for label, worker in played.receivers.deaths if find_poison(label) == poison]
        is_calm = not (played.struck or _progress_after_death(played))
        if workers and is_calm and len(workers) != expected:
            yield Failure("deaths", f"{len(workers)} processes instead of {expected}: {workers}")
    if played.receivers.deaths:
        for job_id in played.journals:
            yield from _wrong_company(played, job_id)
    jobs: dict[str, set[str]] = {}
    for claim in played.claims:
        if find_parent(claim.worker) is not None:
            jobs.setdefault(claim.worker, set()).add(claim.job_id)
    crowded = sorted(worker for worker, driven in jobs.items() if len(driven) > 1)
    if crowded:
        yield Failure("deaths", f"more than one job in a child process: {crowded}")


def _wrong_company(played: Played, job_id: str) -> Iterator[Failure]:
    """What the journal says about deaths, counted anew: who drove the job after each of them, and what convicted it."""
    deaths, kills_alone = 0, 0
    events: list[Any] = played.events(job_id)
    killed = {worker for _, worker in played.receivers.deaths} if job_id == played.job_id else set()
    for seq, event in enumerate(events, 1):
        if _is_progress(event):
            deaths = 0
        elif event.type == "job_claimed":
            deaths += event.takeover
            is_alone = find_parent(event.worker) is not None
            following = events[seq].type if seq < len(events) else ""
            is_driven = following not in NOT_DRIVEN or (
                following == "job_claimed" and events[seq].takeover and event.worker in killed
            )
            if is_driven and is_alone != (deaths >= SUSPECT_AT):
                yield Failure(
                    "deaths", f"{job_id} ran with {event.worker} after {deaths} deaths, at event {seq}"
                )
        elif event.type == "job_requeued" and event.takeover:
            deaths, kills_alone = deaths + 1, kills_alone + 1
        elif event.type == "job_released" and event.why == CLEARED:
            kills_alone = 0
        elif (
            event.type == "job_dead_lettered"
            and "SIGKILL" in str(event.causes)
            and kills_alone + 1 < KILLS_MAX
        ):
            yield Failure("deaths", f"{job_id} was convicted after {kills_alone + 1} kills alone")


def _progress_after_death(played: Played) -> bool:
    """Whether the job made progress between two deaths, so that they count from there."""
    events = played.events()
    takeovers = [seq for seq, event in enumerate(events) if getattr(event, "takeover", False)]
    return bool(takeovers) and any(map(_is_progress, events[takeovers[0] :]))


def _is_progress(event: Any) -> bool:
    """Values that are drawn (`hf.now`, `hf.uuid`, `hf.random`) are steps and no progress."""
    if isinstance(event, StepFinished):
        return re.search(r"(^|/)(now|uuid|random)#\d+$", event.step_key) is None
    return event.type in PROGRESS


def _repeated_reads(outcome: Outcome, played: Played) -> Iterator[Failure]:
    """A read whose result was recorded before a claim does not run again under it."""
    finished_in = {job_id: list(_finished_reads(played, job_id)) for job_id in played.journals}
    for claim in played.claims:
        finished = Counter(label for seq, label in finished_in.get(claim.job_id, ()) if seq <= claim.head_seq)
        if not finished:
            continue
        started = Counter(
            one.label
            for one in played.receivers.requests
            if one.tool in READS and one.tick > claim.tick and one.worker == claim.worker
        )
        again = {
            label: times
            for label in finished
            if (times := finished[label] + started[label] - _reads_of(outcome, label, finished)) > 0
        }
        if again:
            yield Failure("reads", f"finished and made again: {_listed(again)}")
            return
    is_calm = not (played.struck or played.receivers.blocked or played.receivers.deaths)
    if is_calm and played.stopped is None and played.receivers.reads() != outcome.reads:
        yield Failure("reads", f"{played.receivers.reads()} instead of {outcome.reads}")
    yield from _left_threads(played)
    if played.stopped is None and set(played.receivers.crunched) != set(outcome.crunched):
        yield Failure("reads", f"in threads: {played.receivers.crunched} instead of {outcome.crunched}")


def _reads_of(outcome: Outcome, label: str, finished: Counter[str]) -> int:
    """How often a read may be made in all; one that fails some times is not made again once it has succeeded."""
    return finished[label] if is_failing(label) else outcome.reads[label]


def _left_threads(played: Played) -> Iterator[Failure]:
    """A worker does not suspend a job while one of its threads runs for it: it would be started again in the next
    replay. A thread of a worker that was frozen and has lost the job meanwhile is another matter."""
    for thread in played.threads:
        for tick, worker, job_id in played.waits:
            is_its = (worker, job_id) == (thread.worker, thread.job_id)
            if is_its and thread.ended is not None and thread.began < tick < thread.ended:
                yield Failure("threads", "suspended while a thread was running for it")
                return


def _finished_reads(played: Played, job_id: str) -> Iterator[tuple[int, str]]:
    """Where the journal says that a read has succeeded, and its label."""
    for seq, event in enumerate(played.events(job_id), 1):
        answer = None
        if isinstance(event, StepFinished):
            answer = event.result
        elif isinstance(event, LlmResponded) and event.response is not None:
            answer = "".join(block.get("text", "") for block in event.response["content"])
        label = label_of(answer)
        if label is not None:
            yield seq, label


def _ending(output: Any, error: str | None) -> str:
    return f"the error {error}" if error is not None else repr(output)


def _listed(counts: Any) -> str:
    return ", ".join(f"{times} × {what}" for what, times in sorted(counts.items()))
