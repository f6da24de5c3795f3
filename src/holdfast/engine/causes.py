"""Dead letters: every failed attempt and every death of a worker that led to one, gathered from the journal.

Whoever buries a job may know its head alone, and then writes down the last cause. The ones before are in its journal:
each loss of a holder and each failure is a fact of its own. A cause is

    {"why": …, "at": microseconds, "holder": worker, "error": {"type", "message", "traceback", …}}

`error` is there for a failure only.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from holdfast.engine.tracebacks import format_error
from holdfast.model.events import Event, JobClaimed, JobDeadLettered, JobRequeued
from holdfast.model.suspicion import DIED_ALONE

_LOST: Final = "its holder was not heard of again"
FAILED: Final = "failed"
_SUMMARY_MAX: Final = 300


def causes_of(facts: Iterable[tuple[int, Event]]) -> list[Any]:
    """All causes since the job was last begun anew, oldest first. `facts` are the journal's events with their times."""
    causes: list[Any] = []
    holder = ""
    for at, event in facts:
        match event:
            case JobClaimed(worker=worker, takeover=takeover):
                if takeover:
                    causes.append({"why": _LOST, "at": at, "holder": holder})
                holder = worker
            case JobRequeued(takeover=True, holder=lost, why=why):
                seen = why.startswith(DIED_ALONE)
                causes.append({"why": why if seen else _LOST, "at": at, "holder": lost})
            case JobRequeued(error=error) if error is not None:
                causes.append({"why": FAILED, "at": at, "holder": holder, "error": error})
            case JobRequeued():
                causes.clear()  # a person has decided to begin again
            case JobDeadLettered(causes=told):
                causes = _join(causes, told, at, holder)
            case _:
                pass
    return causes


def _join(causes: list[Any], told: Iterable[Any], at: int, holder: str) -> list[Any]:
    """The causes that the journal has, and those that the dead letter adds."""
    added = [cause for cause in told if isinstance(cause, dict)]
    if causes and [_plain(cause) for cause in added[: len(causes)]] == [_plain(cause) for cause in causes]:
        added = added[len(causes) :]  # whoever buried it had read the journal
    for cause in added:
        is_verdict = cause.get("error") is None and "holder" not in cause
        if is_verdict and causes:
            continue  # that there were too many of them is no cause of its own
        rest = {key: value for key, value in cause.items() if key not in {"attempts", "takeovers"}}
        error = rest.get("error")
        if error is None:
            rest.pop("error", None)
        elif isinstance(error, dict) and rest.get("why") == error.get("message"):
            rest["why"] = FAILED
        causes.append({"at": at, "holder": holder} | rest)
    return causes


def _plain(cause: Any) -> Any:
    return {key: value for key, value in cause.items() if key != "at"} if isinstance(cause, dict) else cause


def summarize_causes(causes: Iterable[Any]) -> str:
    """Why a job is a dead letter, in one line: `Failed after 3 attempts: KeyError: 'nope'`."""
    causes = [cause for cause in causes if isinstance(cause, dict)]
    errors = [cause["error"] for cause in causes if cause.get("error") is not None]
    deaths = len(causes) - len(errors)
    if not errors:
        why = str(causes[-1].get("why", "")) if causes else ""
        return f"Lost its worker {_count(deaths, 'time')}: {why}" if causes else "Failed too often"
    died = f" and {_count(deaths, 'lost worker')}" if deaths else ""
    error = " ".join(format_error(errors[-1]).split())
    error = error if len(error) <= _SUMMARY_MAX else error[: _SUMMARY_MAX - 1] + "…"
    why = str(causes[-1].get("why", ""))
    if causes[-1].get("error") is not None and why not in {"", FAILED}:
        return f"{why[0].upper()}{why[1:]}: {error}"
    return f"Failed after {_count(len(errors), 'attempt')}{died}: {error}"


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" + ("" if number == 1 else "s")
