"""Why a job is held as a dead letter: everything that went wrong since it was last begun anew.

Whoever buries a job may know its head alone, and then writes down the last cause. The ones before are in its journal:
each loss of a holder and each failure is a fact of its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from holdfast.model.events import Event, JobClaimed, JobDeadLettered, JobRequeued

_LOST: Final = "its holder was not heard of again"


def causes_of(events: Sequence[Event]) -> list[Any]:
    """All causes, oldest first."""
    causes: list[Any] = []
    holder = ""
    for event in events:
        match event:
            case JobClaimed(worker=worker, takeover=takeover):
                if takeover:
                    causes.append({"why": _LOST, "holder": holder})
                holder = worker
            case JobRequeued(takeover=True, holder=lost):
                causes.append({"why": _LOST, "holder": lost})
            case JobRequeued(error=error) if error is not None:
                causes.append({"why": "failed", "holder": holder, "error": error})
            case JobRequeued():
                causes.clear()  # a person has decided to begin again
            case JobDeadLettered(causes=told):
                knew_all = list(told[: len(causes)]) == causes
                causes = list(told) if knew_all else [*causes, *told]
            case _:
                pass
    return causes
