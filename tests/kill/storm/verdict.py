"""Verdict: what must be in the receiver's log and in the jobs' outputs after a storm, and what is there."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence

import msgspec

from holdfast.client.records import JobView
from holdfast.model.states import HELD, Status, WaitReason
from tests.kill.storm.receiver import CHANGED, EFFECTS, Act

Effects = tuple[tuple[str, ...], ...]
"""The effects of a job as `call item`, in groups: every effect of a group comes after all of the group before."""


def effects_of(kind: str, number: int) -> Effects:
    """What a job of this kind does outside, its children included."""
    name = f"{kind}-{number}"
    match kind:
        case "order":
            return (
                (f"pay {name}/deposit",),
                (f"mail {name}/notice", f"pay {name}/insurance", f"fax {name}/label"),
                (f"fax parcel-{number}/pickup",),
                (f"mail parcel-{number}/delivery",),
                (f"pay {name}/rest",),
            )
        case "survey":
            people = ("ada", "bob", "cleo", "dan")
            return (
                tuple(f"pay {name}/{person}" for person in people),
                (f"fax {name}/report",),
                (f"mail {name}/thanks",),
            )
        case "blocking":
            stamp = "fax" if number % 2 else "mail"
            return ((f"{stamp} {name}/stamp",), (f"pay {name}/after",))
        case _:
            return ()


def output_of(kind: str, number: int) -> list[str]:
    """What a job of this kind returns: the receipt of each effect."""
    return [f"{effect} #1" for group in effects_of(kind, number) for effect in group]


class Submitted(msgspec.Struct, frozen=True):
    """A job of the storm. Poison is expected to be a dead letter, everything else to complete."""

    job_id: str
    kind: str
    number: int

    @property
    def is_poison(self) -> bool:
        return self.kind == "poison"


class Verdict(msgspec.Struct):
    """What went wrong, each as a list of findings; all empty is a storm that was survived. `asked_needlessly` are calls
    that a person was asked about although their class says how to go on."""

    lost: list[str] = []
    duplicates: list[str] = []
    changed: list[str] = []
    disordered: list[str] = []
    parked: list[str] = []
    dead_letters: list[str] = []
    stuck: list[str] = []
    failed: list[str] = []
    wrong_outputs: list[str] = []
    poison_alive: list[str] = []
    verify: list[str] = []
    asked_needlessly: list[str] = []

    @property
    def counts(self) -> dict[str, int]:
        return {name: len(getattr(self, name)) for name in self.__struct_fields__}

    @property
    def is_clean(self) -> bool:
        return not any(self.counts.values())


def judge(
    jobs: Sequence[Submitted], children: Iterable[JobView], views: Mapping[str, JobView], log: Sequence[Act]
) -> Verdict:
    """Compare what was submitted with the receiver's log and with what the client says of the jobs."""
    verdict = Verdict()
    acts = Counter(f"{act.call} {act.item}" for act in log if act.call in EFFECTS and act.nth != CHANGED)
    verdict.changed = [f"{act.call} {act.item}" for act in log if act.nth == CHANGED]
    verdict.duplicates = [f"{effect}: {times} times" for effect, times in acts.items() if times > 1]
    first: dict[str, int] = {}
    for nth, act in enumerate(log):
        first.setdefault(f"{act.call} {act.item}", nth)
    for job in jobs:
        view = views[job.job_id]
        if job.is_poison:
            if view.wait_reason is not WaitReason.DEAD_LETTER:
                verdict.poison_alive.append(_describe(view))
            continue
        _judge_state(verdict, view)
        if view.status is Status.COMPLETED:
            effects = effects_of(job.kind, job.number)
            verdict.lost += [
                f"{effect} of {job.job_id}" for group in effects for effect in group if not acts[effect]
            ]
            verdict.disordered += list(_disorder(effects, first))
            if view.output != output_of(job.kind, job.number):
                verdict.wrong_outputs.append(f"{job.job_id}: {view.output}")
    for view in children:
        _judge_state(verdict, view)
    return verdict


def _judge_state(verdict: Verdict, view: JobView) -> None:
    if view.status is Status.COMPLETED:
        return
    if view.wait_reason is WaitReason.DEAD_LETTER:
        verdict.dead_letters.append(_describe(view))
    elif view.wait_reason in HELD:
        verdict.parked.append(_describe(view))
    elif view.over:
        verdict.failed.append(_describe(view))
    else:
        verdict.stuck.append(_describe(view))


def _describe(view: JobView) -> str:
    needs = "; ".join(need.what for need in view.needs)
    return f"{view.kind} {view.job_id}: {view.status} {view.wait_reason or ''} {view.error or ''} {needs}".strip()


def _disorder(effects: Effects, first: Mapping[str, int]) -> Iterator[str]:
    for earlier, later in itertools.pairwise(effects):
        for before in earlier:
            for after in later:
                if first.get(before, 0) > first.get(after, len(first)):
                    yield f"{after} came before {before}"
