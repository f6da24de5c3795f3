"""Report of a storm: what was done to the workers, the verdict, and the distribution of the time to recover."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from tests.kill.storm.observer import Observer, Takeover
from tests.kill.storm.person import Person
from tests.kill.storm.verdict import Submitted, Verdict
from tests.support.project import ROOT

if TYPE_CHECKING:
    from tests.kill.storm.storm import Plan

FILE = ROOT / "build" / "storm.json"
SUSPECT_TAKEOVERS = 2
SLOWEST = 12


class Distribution(msgspec.Struct):
    """Seconds."""

    count: int
    p50: float | None = None
    p90: float | None = None
    p99: float | None = None
    max: float | None = None

    def __str__(self) -> str:
        if self.p50 is None:
            return "none"
        figures = (("p50", self.p50), ("p90", self.p90), ("p99", self.p99), ("max", self.max))
        return f"{self.count}: " + ", ".join(f"{name} {value:.2f} s" for name, value in figures)


class Report(msgspec.Struct, kw_only=True):
    """A storm, in figures."""

    store: str
    seed: int
    without: list[str]
    kills: int
    stops: int
    deaths: int
    jobs: dict[str, int]
    seconds: tuple[float, float]
    verdict: Verdict
    recover: Distribution
    recover_suspects: Distribution
    recover_behind_standstill: Distribution
    recover_from_stop: Distribution
    slowest: list[Takeover]
    never_recovered: int
    standstills: list[float]
    answers: dict[str, int]
    refusals: dict[str, int]

    def __str__(self) -> str:
        lines = [
            (
                f"storm on {self.store}, seed {self.seed}, without {', '.join(self.without) or 'nothing'}: "
                f"{self.kills} kills, {self.stops} stops, {self.deaths} other deaths of workers; "
                f"{self.seconds[0]:.0f} s of storm, {self.seconds[1]:.0f} s of calm"
            ),
            f"  jobs: {self.jobs}",
            f"  verdict: {'clean' if self.verdict.is_clean else self.verdict.counts}",
            f"  time to recover from a kill: {self.recover}",
            f"    slowest: {', '.join(_shorten(one) for one in self.slowest)}",
            f"    suspects: {self.recover_suspects}",
            f"    behind a standstill: {self.recover_behind_standstill}; never: {self.never_recovered}",
            f"  time to recover from a stop: {self.recover_from_stop}",
            f"  standstills: {[round(one, 1) for one in self.standstills]}",
            f"  person: {self.answers}, refused {self.refusals}",
        ]
        for name in self.verdict.__struct_fields__:
            lines += [f"  {name}: {finding[:400]}" for finding in getattr(self.verdict, name)[:8]]
        return "\n".join(lines)


def summarize(
    plan: Plan,
    observer: Observer,
    person: Person,
    verdict: Verdict,
    *,
    jobs: Sequence[Submitted],
    kills: int,
    stops: int,
    deaths: int,
    seconds: tuple[float, float],
) -> Report:
    kinds = sorted({job.kind for job in jobs})
    killed = [one for one in observer.takeovers if one.cause == "kill"]
    behind = [one for one in killed if _is_behind(one, observer.standstills)]
    suspects = [one for one in killed if one.takeovers >= SUSPECT_TAKEOVERS and one not in behind]
    plain = [one for one in killed if one not in behind and one not in suspects]
    return Report(
        store=plan.store,
        seed=plan.seed,
        without=sorted(plan.without),
        kills=kills,
        stops=stops,
        deaths=deaths,
        jobs={kind: sum(job.kind == kind for job in jobs) for kind in kinds},
        seconds=seconds,
        verdict=verdict,
        recover=_distribution(plain),
        recover_suspects=_distribution(suspects),
        recover_behind_standstill=_distribution(behind),
        recover_from_stop=_distribution([one for one in observer.takeovers if one.cause == "stop"]),
        slowest=sorted(plain, key=lambda one: one.took_s or 0.0)[-SLOWEST:],
        never_recovered=sum(one.took_s is None for one in killed),
        standstills=[end - start for start, end in observer.standstills],
        answers=dict(person.answers),
        refusals=dict(person.refusals),
    )


def _shorten(takeover: Takeover) -> str:
    return f"{takeover.job_id} {takeover.took_s or 0:.2f} s (its worker {takeover.age_s:.1f} s old)"


def _is_behind(takeover: Takeover, standstills: Sequence[tuple[float, float]]) -> bool:
    """Whether the job was taken over late because no process could write."""
    if takeover.took_s is None:
        return False
    ended = takeover.began_at + takeover.took_s
    return any(start < ended and takeover.began_at < end for start, end in standstills)


def _distribution(takeovers: Sequence[Takeover]) -> Distribution:
    times = sorted(one.took_s for one in takeovers if one.took_s is not None)
    if not times:
        return Distribution(0)

    def quantile(share: float) -> float:
        return round(times[min(int(len(times) * share), len(times) - 1)], 3)

    return Distribution(len(times), quantile(0.5), quantile(0.9), quantile(0.99), round(times[-1], 3))


def save(report: Report, path: Path = FILE) -> None:
    """Keep the newest report of each store and set of troubles."""
    path.parent.mkdir(exist_ok=True)
    known: dict[str, Any] = json.loads(path.read_text()) if path.exists() else {}
    without = ",".join(report.without)
    known[f"{report.store}{f' without {without}' if without else ''}"] = msgspec.to_builtins(report)
    path.write_text(json.dumps(known, indent=2) + "\n")
