"""Checkpoints: states that a resumed job starts from, with evidence that the state exists.

`checkpoint` writes the state. What the code did before it need not be replayed any more, nor read: what still matters
of it is part of the checkpoint (`model.checkpoint_snapshot`). A resumed job runs its function from the top and gets
the state with `restore_state`. Keys of calls start again under the next ordinal, so a checkpoint is allowed only where
the code is one task and in no scope: anywhere else it is undecidable which calls come after it.

Evidence belongs to a state that is partly outside the store: a file that was written, a row in another database. It
must hold when the checkpoint is made, or the code gets an error; and again when the job is resumed, or the job parks,
because to continue from a state that no longer exists would be a guess.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from holdfast.engine.durable_call import READS, DurableCall, encode_result
from holdfast.engine.execution import Execution
from holdfast.engine.telemetry import SILENT, Telemetry
from holdfast.errors import InvalidMove, InvalidSetting, Unproven
from holdfast.model import canonical
from holdfast.model.checkpoint_snapshot import pack_snapshot, take_snapshot
from holdfast.model.events import CheckpointSaved
from holdfast.model.evidence import EvidenceSet, Inspector, Result, pack_from_json, pack_to_json
from holdfast.model.replay_history import History
from holdfast.model.step_keys import StepScope


async def checkpoint(execution: Execution, state: Any, pack: EvidenceSet | None = None) -> int:
    """Makes the state durable; the job resumes from it. Returns the ordinal of this checkpoint."""
    place = execution.place()
    # A task that has just ended is still in the set until the next pass of the loop, and the code may come here
    # sooner.
    running = [task for task in execution.tasks if not task.done()]
    if len(running) != 1 or place.scope.path != str(execution.history.ordinal):
        msg = "a checkpoint was made inside a scope, or while other tasks of the job run"
        raise InvalidMove(msg, hint="Make it in the agent's own function, after its tasks have ended.")
    evidence = None if pack is None or not pack.evidence else pack_to_json(pack)
    if pack is not None and evidence is not None:

        async def look(_key: str) -> Any:
            return msgspec.to_builtins(await _check_evidence(execution.inspect, pack))

        results = await execution.call(DurableCall("evidence", evidence, look, READS))
        why = _explain_unproven(pack, [msgspec.convert(result, Result) for result in results])
        if why is not None:
            execution.meter.record_unproven()
            raise Unproven(f"the evidence of this checkpoint does not verify: {why}")

    async def commit(_key: str) -> Any:
        raise AssertionError("a checkpoint is an append, not a call")

    # An effect that the code has not requested yet would be dropped by the checkpoint, and could then fire again.
    stored_state = canonical.decode_stored(encode_result(state))
    await execution.clear(DurableCall("checkpoint", state, commit, READS), f"{place.scope.path}/checkpoint")
    if execution.history.children:
        # A cancel may withdraw the start of a child, which must then not be part of the checkpoint.
        await execution.recorder.durable()
    event = CheckpointSaved(
        execution.history.ordinal + 1, stored_state, evidence, pack_snapshot(take_snapshot(execution.history))
    )
    stamp = execution.note(event, progress=True)
    execution.scheduler.advance(stamp.at)
    # Before the wait: code that cancels the wait continues after the checkpoint, too.
    place.scope = StepScope(str(event.ordinal))
    await execution.recorder.durable()
    return event.ordinal


def restore_state(execution: Execution, default: Any = None) -> Any:
    """The state of the last checkpoint; the default, if there is none."""
    execution.place()
    return execution.history.state if execution.history.ordinal else default


async def find_unproven(
    inspect: Inspector | None, history: History, meter: Telemetry = SILENT
) -> dict[str, Any] | None:
    """The reason why the job cannot be resumed from its last checkpoint, as a report; None if it can."""
    if history.evidence is None:
        return None
    pack = pack_from_json(history.evidence)
    why = _explain_unproven(pack, await _check_evidence(inspect, pack))
    if why is None:
        return None
    meter.record_unproven()
    return {
        "why": f"the evidence of checkpoint {history.ordinal} no longer holds: {why}",
        "recorded": [],
        "attempted": None,
    }


async def _check_evidence(inspect: Inspector | None, pack: EvidenceSet) -> Sequence[Result]:
    if inspect is None:
        msg = "this runtime has no inspector that verifies evidence"
        raise InvalidSetting(
            msg, hint="Give the runtime an inspector, or make the checkpoint without evidence."
        )
    return await inspect(pack)


def _explain_unproven(pack: EvidenceSet, results: Sequence[Result]) -> str | None:
    if pack.judge(results).holds:
        return None
    reasons = [f"{result.finding}: {result.reason}" for result in results if result.finding != "verified"]
    return "; ".join(reasons) or "too little of it was verified"
