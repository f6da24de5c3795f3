"""Tool ledger of the kit: calls that happen once, recorded before they are made and replayed afterwards.

    intent durable → execute_fn → result durable → returned

The intent is written before the first byte is sent, so after a crash the next caller knows that the call *may* have
happened. What it may do then depends on the declared side-effect class (see `holdfast.model.side_effects`):

    read_only, idempotent     run it again
    verifiable                ask `probe`, which checks whether it happened
    unsafe (the default)      nothing: CallUncertain, until a person has checked and decides with `reconcile`

The intent is conditional on the head that was read before it: if another process wrote to the task in between, both are
done again. So of any number of processes that make the same call at once, one executes it. Results are returned byte
for byte, whatever their size.

Calls belong to a task. Calls without one share a few journals of the store; only these ever expire, because no task can
be in the middle of replaying them.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import msgspec

from holdfast.errors import CallUncertain, InvalidPayload, KeyReused, Misuse, Refused
from holdfast.kit.blocking_portal import Database, need_db
from holdfast.kit.calls import (
    DIGITS,
    Call,
    Probe,
    ask_probe,
    call_of,
    describe_call,
    get_shared_task,
    render_value,
    unstorable,
)
from holdfast.kit.packing import pack, round_trip, unpack
from holdfast.kit.tasks import Tasks, keep_status, task_job
from holdfast.model import canonical
from holdfast.model.append import Extras
from holdfast.model.events import (
    Event,
    JobClaimed,
    JobReleased,
    ToolCalled,
    ToolFailed,
    ToolReconciled,
    ToolReturned,
    ToolUncertain,
)
from holdfast.model.hash_chain import Head, unseal
from holdfast.model.jobs import JobHead
from holdfast.model.ledger import CallRow, call_id
from holdfast.model.side_effects import (
    DECIDED,
    SETTLED,
    CallStatus,
    CutOff,
    Effect,
    Recovery,
    parse_effect,
    recover,
)
from holdfast.model.time import SECOND
from holdfast.model.worker_identity import identity_in, is_dead, is_neighbour
from holdfast.store.ports.journal import Ruling
from holdfast.store.ports.ledger import Receipt

MONTH_S: Final = 30 * 24 * 3600
ARGS_SHOWN_BYTES: Final = 64 * 1024


class ToolLedger:
    """Executes each call once, and replays its result afterwards."""

    def __init__(
        self,
        store: Database | None = None,
        expires_in_seconds: float = MONTH_S,
        *,
        conn: Database | None = None,
        db_path: str | Path | None = None,
        effect: str | None = None,
    ) -> None:
        self.db = need_db(store if store is not None else conn, db_path)
        self.expires_in_seconds = expires_in_seconds
        self._effect = parse_effect(effect)
        self._tasks = Tasks(self.db)
        self._flights = self.db.flights
        self._lock = threading.Lock()
        self._executions = self._replays = 0

    def execute_or_replay(
        self,
        tool_name: str,
        command: Any,
        execute_fn: Callable[[], Any],
        task_id: str | None = None,
        work_item_id: str | None = None,
        force_execute: bool = False,
        *,
        effect: str | None = None,
        probe: Probe | None = None,
    ) -> dict[str, Any]:
        """Return the call's result, with `replayed`: from the ledger if it is there, else from `execute_fn`, recorded
        durably.

        A result that is not a dict is returned under `result`. An error of `execute_fn` is raised unchanged; unless it
        is `Refused`, or the call is declared harmless, the call is then uncertain. `force_execute` makes a new call.
        """
        call = self._call(tool_name, command, task_id, work_item_id, effect)
        known = None if force_execute else self._find_receipt(call)
        if known is not None and self._is_current(call, known.call):
            return self._replay(call, known)
        place = (call.job_id, call.step_key)
        self._flights.enter(place)
        try:
            return self._settle(call, execute_fn, probe, force=force_execute)
        finally:
            self._flights.leave(place)

    def reconcile(
        self,
        tool_name: str,
        command: Any,
        decision: str,
        *,
        why: str,
        result: Any = None,
        by: str = "",
        task_id: str | None = None,
        work_item_id: str | None = None,
    ) -> None:
        """Record a person's decision on an uncertain call: `happened` (with its result), `not_happened`, `skip` or
        `fail`."""
        if decision not in DECIDED:
            msg = f"{decision!r} is no decision"
            raise InvalidPayload(msg, hint=f"Say one of {', '.join(DECIDED)}.")
        call = self._call(tool_name, command, task_id, work_item_id, None)
        packed = pack(self.db, call.job_id, result)
        while True:
            seen, known = self._read_call(call)
            if known is None or known.call.status in SETTLED:
                msg = f"{tool_name} has no open call with this command"
                raise Misuse(msg, hint="get_execution_history shows what there is.")
            row = known.call
            event = ToolReconciled(call.step_key, decision, by or self.db.me, why, row.generation, packed)
            if self._write(call, row, (event,), DECIDED[decision], seen):
                return

    def get_execution_history(self, task_id: str | None = None, limit: int = 100) -> list[dict[str, Any]]:
        """The task's calls, or those without a task, the latest first."""
        jobs = [task_job(task_id)] if task_id is not None else [get_shared_task(digit) for digit in DIGITS]
        rows = [row for job_id in jobs for row in self.db.run(self.db.store.ledger.list(job_id))]
        rows.sort(key=lambda row: (row.prepared_at, row.intent_seq), reverse=True)
        return [describe_call(row) for row in rows[:limit]]

    def get_stats(self) -> dict[str, Any]:
        """Executions and replays of this object."""
        with self._lock:
            executions, replays = self._executions, self._replays
        total = executions + replays
        return {
            "executions": executions,
            "replays": replays,
            "replay_rate": replays / total if total else 0.0,
            "total_requests": total,
        }

    def reset_stats(self) -> None:
        with self._lock:
            self._executions = self._replays = 0

    # ── decide ────────────────────────────────────────────────────────────────────────────────────

    def _settle(
        self, call: Call, execute_fn: Callable[[], Any], probe: Probe | None, *, force: bool
    ) -> dict[str, Any]:
        """Execute, replay or reject the call by its ledger row; again as long as other processes write in between."""
        if call.task_id is not None:
            self._tasks.ensure(call.task_id)
        else:
            self._tasks.ensure_job(call.job_id)
        while True:
            head, known = self._read_call(call)
            if known is not None and self._is_current(call, known.call) and not force:
                return self._replay(call, known)
            intent = self._begin(call, None if known is None else known.call, head, probe)
            if intent is not None:
                return self._execute(call, intent, execute_fn)

    def _begin(self, call: Call, row: CallRow | None, seen: Head, probe: Probe | None) -> CallRow | None:
        """Record the intent durably and return its row; None if another process wrote since the row was read: read
        again."""
        if row is None:
            return self._intend(call, seen, 0, 1)
        if row.args_digest != call.digest:
            msg = f"call {call.step_key} is in the ledger with another command"
            raise KeyReused(msg, stored=row.args_digest, sent=call.digest)
        if row.status in SETTLED:
            return self._intend(call, seen, row.generation + 1, 1)
        match self._recovery(call, row, probe):
            case Recovery.RUN | Recovery.RESEND:
                return self._intend(call, seen, row.generation, row.attempt + 1)
            case Recovery.ADOPT:
                event = ToolReturned(call.step_key, row.generation, {"json": None}, adopted=True)
                self._write(call, row, (event,), CallStatus.SUCCEEDED, seen)
            case other:
                self._stop(call, row, seen, wait=other is Recovery.WAIT)
        return None

    def _recovery(self, call: Call, row: CallRow, probe: Probe | None) -> Recovery:
        """What recovery may do with a call that was begun and has no outcome."""
        uncertain = row.status is CallStatus.UNCERTAIN
        quiet = uncertain or self._is_left(call, row)
        cut = CutOff(
            effect=row.side_effect_class, status=row.status, has_probe=probe is not None, quiet=quiet
        )
        can_probe = uncertain or recover(cut) is Recovery.PROBE
        if probe is None or not can_probe or row.side_effect_class in {Effect.READ_ONLY, Effect.UNSAFE}:
            return recover(cut)
        return recover(msgspec.structs.replace(cut, answer=ask_probe(probe, row.idempotency_key)))

    def _stop(self, call: Call, row: CallRow, seen: Head, *, wait: bool) -> None:
        """Raise CallUncertain: only a person can decide what happened. It is recorded once the process that tried is
        known to have ended.

        Returns only if another process wrote meanwhile: the outcome may just have been recorded.
        """
        running = False
        if row.status is CallStatus.PREPARED:
            running = not self._is_left(call, row)
            event = ToolUncertain(
                call.step_key, row.generation, "its process ended before it knew the outcome"
            )
            if not running and not self._write(call, row, (event,), CallStatus.UNCERTAIN, seen):
                return
        state = (
            "is being executed elsewhere, or was when that process ended" if running else "may have happened"
        )
        msg = f"{call.tool} with this command {state} (try {row.attempt}, {row.side_effect_class})"
        raise CallUncertain(msg, step_key=call.step_key, hint="Ask again in a moment." if wait else None)

    def _is_left(self, call: Call, row: CallRow) -> bool:
        """Whether the process that made the latest attempt is gone: this process, which is not executing it, or one
        proven dead.

        The claim with the fence of the row names that process.
        """
        events = self.db.run(self.db.store.journal.read(call.job_id, after=row.intent_seq - 2))
        decoded = [unseal(event) for event in events if event.fence == row.fence]
        claimed = next((item for item in decoded if isinstance(item, JobClaimed)), None)
        if claimed is None:
            return False
        if claimed.worker == self.db.me:
            return True  # calls of this process go one at a time, and this is the current one
        here, claimer = self.db.processes.here(), identity_in(claimed.worker)
        if here is None or claimer is None or not is_neighbour(claimer, here):
            return False
        return is_dead(claimer, here, self.db.processes.look_up(claimer.pid))

    # ── execute ───────────────────────────────────────────────────────────────────────────────────

    def _intend(self, call: Call, seen: Head, generation: int, attempt: int) -> CallRow | None:
        """Record the intent durably, if the head has not moved since it was read; returns its row, else None."""
        made: list[CallRow] = []
        args = call.command if len(canonical.encode(call.command)) <= ARGS_SHOWN_BYTES else None

        def decide(head: JobHead) -> Ruling | None:
            if head.head != seen:
                return None
            row = self._row(call, generation, attempt, head)
            made[:] = [row]
            event = ToolCalled(
                call.step_key,
                call.tool,
                str(call.effect),
                call.digest,
                row.idempotency_key,
                generation,
                attempt,
                args=args,
            )
            events = (JobClaimed(self.db.me), event, JobReleased("written"))
            return Ruling(events, keep_status(head), Extras(calls=(row,)))

        written = self.db.run(self.db.store.journal.hold(call.job_id, decide))
        if written is None:
            self._must_not_be_over(call)
            return None
        return made[0]

    def _row(self, call: Call, generation: int, attempt: int, head: JobHead) -> CallRow:
        return CallRow(
            tool_call_id=call_id(call.job_id, call.step_key, generation),
            job_id=call.job_id,
            step_key=call.step_key,
            generation=generation,
            tool_name=call.tool,
            raw_tool_name=call.tool,
            side_effect_class=call.effect,
            status=CallStatus.PREPARED,
            idempotency_key=call.key(generation),
            args_digest=call.digest,
            attempt=attempt,
            fence=head.fence + 1,
            intent_seq=head.head_seq + 2,
            prepared_at=self.db.clock.wall_us(),
        )

    def _execute(self, call: Call, row: CallRow, execute_fn: Callable[[], Any]) -> dict[str, Any]:
        try:
            result = execute_fn()
        except Refused as refusal:
            error_json = {"type": type(refusal).__qualname__, "message": str(refusal)}
            self._write(
                call, row, (ToolFailed(call.step_key, row.generation, error=error_json),), CallStatus.FAILED
            )
            raise
        except Exception as error:
            self._record_failure(call, row, error)
            raise
        with self._lock:
            self._executions += 1
        try:
            value = round_trip(result)
            packed = pack(self.db, call.job_id, value)
        except InvalidPayload as error:
            # It has happened, and must not happen again; only its result cannot be stored.
            packed = {"unstorable": type(result).__qualname__, "why": str(error)}
            self._write(
                call, row, (ToolReturned(call.step_key, row.generation, packed),), CallStatus.SUCCEEDED
            )
            raise unstorable(call, packed) from error
        self._write(call, row, (ToolReturned(call.step_key, row.generation, packed),), CallStatus.SUCCEEDED)
        return render_value(value, replayed=False)

    def _record_failure(self, call: Call, row: CallRow, error: Exception) -> None:
        """After an error a harmless call may be made again; any other call is uncertain."""
        if row.side_effect_class in {Effect.READ_ONLY, Effect.IDEMPOTENT}:
            return
        why = f"{type(error).__qualname__}: {error}"[:1000]
        self._write(call, row, (ToolUncertain(call.step_key, row.generation, why),), CallStatus.UNCERTAIN)

    def _write(
        self,
        call: Call,
        row: CallRow,
        events: tuple[Event, ...],
        status: CallStatus,
        seen: Head | None = None,
    ) -> bool:
        """Append the events and update the row, in one transaction. With `seen` only if the head has not moved since;
        returns False if it has."""
        settled = self.db.clock.wall_us() if status in SETTLED else None

        def decide(head: JobHead) -> Ruling | None:
            if seen not in {None, head.head}:
                return None
            moved = msgspec.structs.replace(
                row,
                status=status,
                fence=head.fence + 1,
                result_seq=head.head_seq + 1 if status in SETTLED else None,
                settled_at=settled,
            )
            return Ruling(events, keep_status(head), Extras(calls=(moved,)))

        if self.db.run(self.db.store.journal.hold(call.job_id, decide)) is not None:
            return True
        self._must_not_be_over(call)
        return False

    # ── read ──────────────────────────────────────────────────────────────────────────────────────

    def _replay(self, call: Call, known: Receipt) -> dict[str, Any]:
        assert known.result is not None, "a call that counts has a result"
        event = unseal(known.result)
        assert isinstance(event, ToolReturned | ToolReconciled)
        with self._lock:
            self._replays += 1
        if isinstance(event.result, dict) and "unstorable" in event.result:
            raise unstorable(call, event.result)
        return render_value(unpack(self.db, event.result), replayed=True)

    def _read_call(self, call: Call) -> tuple[Head, Receipt | None]:
        """The journal's head, and then the call: if the head is still the same when we write, no other process wrote in
        between."""
        head = self.db.look(self.db.store.jobs.head(call.job_id)).head
        return head, self._find_receipt(call)

    def _find_receipt(self, call: Call) -> Receipt | None:
        return self.db.look(self.db.store.ledger.receipt(call.job_id, call.step_key))

    def _is_current(self, call: Call, row: CallRow) -> bool:
        """Whether the record still applies to the call. It expires only for calls without a task: a running task may
        still be replaying its calls."""
        if row.status not in {CallStatus.SUCCEEDED, CallStatus.SKIPPED}:
            return False
        if call.task_id is not None or row.settled_at is None:
            return True
        return row.settled_at + int(self.expires_in_seconds * SECOND) > self.db.clock.wall_us()

    def _must_not_be_over(self, call: Call) -> None:
        if self._tasks.status_of(call.job_id) != "running":
            msg = f"the task of {call.tool} is over; nothing new is executed in it"
            raise Misuse(msg, hint="Use a new task id for new work.")

    def _call(
        self, tool: str, command: Any, task_id: str | None, work_item_id: str | None, effect: str | None
    ) -> Call:
        declared = self._effect if effect is None else parse_effect(effect)
        return call_of(tool, command, task_id, work_item_id, declared)
