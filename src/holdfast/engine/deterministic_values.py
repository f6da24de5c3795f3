"""Deterministic values: the time, random numbers and ids, made so that a replay returns them again."""

from __future__ import annotations

import hashlib

from holdfast.engine.execution import Execution
from holdfast.model.events import StepFinished
from holdfast.model.step_keys import NO_ARGS


def now_us(execution: Execution) -> int:
    """The time at which the code first called it. The call does not wait, so its place in the order is the
    code's own."""
    key = execution.place().scope.key("now")
    recorded = execution.history.find(key, NO_ARGS)
    if recorded is not None and recorded.settled:
        return int(recorded.result)
    instant = execution.clock.wall_us()
    execution.recorder.record(
        StepFinished(key, NO_ARGS, result=instant, generation=execution.history.next_generation(key))
    )
    return instant


def draw(execution: Execution, name: str) -> bytes:
    """32 bytes that no other place of any job draws, and that this place draws in every run. They are no secret: they
    can be computed from the job's id."""
    key = execution.place().scope.key(name)
    place = f"{execution.owner.namespace}\0{execution.owner.job_id}\0{key}"
    return hashlib.sha256(place.encode("utf-8", "surrogatepass")).digest()
