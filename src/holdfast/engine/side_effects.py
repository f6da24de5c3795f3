"""Side effects: calls that change the world. The intent is durable before the first byte is sent, and recovery never
guesses the outcome of a cut-off call.

    intent durable → check the clock → fire → record the outcome

A call that was cut off (its worker died, or the answer was lost) left an intent and no outcome.
`model.side_effects.recover` decides what is allowed then; here it is carried out:

    RESEND     the same key again; the receiver returns what it did the first time
    WAIT       no call and no probe before the last instant at which the old worker could still have sent
    PROBE      the receiver is asked whether the call happened
    ADOPT      it happened: its result is adopted
    RELAUNCH   `abandoned_on_resume`: its author declared that a cut-off call is made anew
    ASK        `uncertain`: the job is suspended until a person decides what happened

One hole remains: a worker that is frozen between its check of the clock and its first byte. It is as wide as that
moment, and it is why only calls with a key or with a person's approval may carry money.
"""

from __future__ import annotations

import asyncio
from typing import Any, Final

from holdfast.engine import approvals, failures
from holdfast.engine.crash_points import Point, Points, ignore_point
from holdfast.engine.durable_call import DurableCall, ProbeResult, keep_value
from holdfast.engine.execution_context import ExecutionContext
from holdfast.engine.task_scopes import TaskScope
from holdfast.engine.tracebacks import format_error
from holdfast.errors import Refused
from holdfast.model.budget import ONE_CALL
from holdfast.model.events import ToolCalled, ToolFailed, ToolReconciled, ToolReturned, ToolUncertain
from holdfast.model.ledger import CallRow, call_id, idempotency_key
from holdfast.model.replay_history import Recorded
from holdfast.model.retry import NO_RETRY, PROBED_RETRY
from holdfast.model.side_effects import CallStatus, CutOff, Effect, ProbeAnswer, Recovery, quiet_at, recover
from holdfast.model.states import WaitReason


class SideEffectCall:
    """Carries out the side effects of one run."""

    def __init__(self, execution: ExecutionContext, points: Points) -> None:
        self.execution = execution
        self.points = points
        self.unsafe = 0
        """How many unsafe calls are in progress, whose outcome would be unknown if they were cut off now."""
        self.cut_off: list[str] = []
        """The tools whose calls had an intent and no outcome when the run was ended."""

    async def act(
        self, call: DurableCall, place: TaskScope, key: str, digest: str, recorded: Recorded | None
    ) -> Any:
        """Returns the call's outcome, with recovery by its side-effect class."""
        if recorded is not None:
            key = recorded.step_key  # it may have been made under another key
        effect = _Call(self, call, place, key, digest, recorded)
        try:
            if recorded is None:
                return await effect.outcome()
            with self.execution.recovering(key):
                return await effect.outcome()
        except asyncio.CancelledError:
            if self.execution.stopping and effect.has_intent:
                self.cut_off.append(call.name)
            await self.execution.record_cancelled(key, digest, effect.generation)
            raise


class _Call:
    """One call under one step key, with as many attempts as its class allows."""

    def __init__(
        self,
        acts: SideEffectCall,
        call: DurableCall,
        place: TaskScope,
        step_key: str,
        digest: str,
        recorded: Recorded | None,
    ) -> None:
        self._acts = acts
        self._execution = acts.execution
        self._owner = acts.execution.owner
        self._points = acts.points
        self._call = call
        self._terms = call.terms
        self._place = place
        self._step_key = step_key
        self._digest = digest
        self._recorded = recorded
        self.generation = (
            recorded.generation if recorded else self._execution.history.next_generation(step_key)
        )
        # The class of a call is the one that its intent recorded.
        self._effect = recorded.effect if recorded else self._terms.effect
        self._attempt = recorded.attempt if recorded else 0
        self._start_by = recorded.start_by if recorded else None
        self._answer: ProbeResult | None = None
        self._approval_id: str | None = recorded.approval_id if recorded else None
        self._unexplained = False
        self._error: dict[str, Any] | None = recorded.raised if recorded else None

    async def outcome(self) -> Any:
        if self._recorded is None:
            return await self._call_first()
        while True:
            match recover(self._cut_off(self._recorded)):
                case Recovery.RESEND:
                    await self._execution.wait_for_attempt(self._recorded.retry_at)
                    # A receiver that refuses the second request has not answered the first.
                    self._unexplained = self._answer is None and not self._recorded.sent_nothing
                    return await self._fire()
                case Recovery.WAIT:
                    await self._execution.waits.until(self._quiet_at(self._recorded))
                case Recovery.PROBE:
                    self._answer = await self._ask_receiver()
                case Recovery.ADOPT:
                    assert self._answer is not None
                    return await self._record_success(self._answer.result, adopted=True)
                case Recovery.RELAUNCH:
                    self._abandon(self._recorded)
                case Recovery.NEW_GENERATION:
                    self._execution.mark_settled(self._step_key)
                    self.generation += 1
                    return await self._call_first()
                case Recovery.USE_RECORD:
                    await self._execution.wait_for_outcome(self._recorded)
                    return self._execution.recall(self._recorded, self._call)
                case _:
                    await self._ask_person()

    @property
    def has_intent(self) -> bool:
        return self._attempt > 0

    @property
    def _failed_attempts(self) -> int:
        """How many attempts of this generation have failed, including the current one."""
        recorded = self._recorded
        is_known = recorded is not None and recorded.generation == self.generation
        return 1 + (recorded.failed_attempts if recorded is not None and is_known else 0)

    @property
    def _attempts_max(self) -> int:
        """A verifiable call without a retry policy is attempted a few times; then a person decides."""
        retry = self._terms.retry
        if retry is NO_RETRY and self._effect is Effect.VERIFIABLE:
            retry = PROBED_RETRY
        return retry.attempts

    # ── the record ────────────────────────────────────────────────────────────────────────────────

    @property
    def key(self) -> str:
        return idempotency_key(self._owner.namespace, self._owner.job_id, self._step_key, self.generation)

    def _cut_off(self, recorded: Recorded) -> CutOff:
        now = self._execution.clock.wall_us()
        first_start_by = recorded.first_start_by
        return CutOff(
            effect=self._effect,
            status=recorded.status or CallStatus.PREPARED,
            key_age_us=0 if first_start_by is None else now - (first_start_by - self._terms.start_within_us),
            key_lifetime_us=self._terms.key_lifetime_us,
            has_probe=self._terms.probe is not None,
            relaunch=self._terms.relaunch,
            quiet=now >= self._quiet_at(recorded),
            answer=None if self._answer is None else self._answer.answer,
            attempts_left=recorded.failed_attempts < self._attempts_max,
            sent_nothing=recorded.sent_nothing,
        )

    def _quiet_at(self, recorded: Recorded) -> int:
        """The time from which on no earlier holder of the job can still be sending."""
        if recorded.quiet_at:
            return recorded.quiet_at
        longest = recorded.longest_call_us or self._terms.longest_call_us
        start_by = recorded.start_by or 0
        dead_at = self._execution.dead_at(recorded.worker)
        if dead_at is not None:
            start_by = min(start_by, dead_at)  # a dead worker has not sent since
        return quiet_at(start_by, longest, self._terms.receiver_delay_us, self._terms.quiet_margin_us)

    def _quiet_after_failure(self) -> int:
        """The same for an attempt that has just ended here: it sends nothing new, but what it sent may still be
        arriving."""
        terms = self._terms
        return quiet_at(
            self._execution.latest_us(), terms.longest_call_us, terms.receiver_delay_us, terms.quiet_margin_us
        )

    # ── making the call ───────────────────────────────────────────────────────────────────────────

    async def _call_first(self) -> Any:
        """Makes the call for the first time under this generation: with an approval, if it needs one."""
        while True:
            self._approval_id = await approvals.find_approval(
                self._execution, self._call, self._step_key, self._digest, self.generation
            )
            await self._execution.clear(self._call, self._step_key)
            await self._execution.afford(self._place, self._step_key, ONE_CALL)
            if approvals.is_approval_valid(
                self._execution, self._approval_id
            ):  # the waits before may have taken long
                return await self._fire()

    async def _fire(self) -> Any:
        """Makes the intent durable, then makes the call. Without a durable intent there is no call."""
        host, within_us = self._execution.host_clock, self._terms.start_within_us
        late_us = 0
        while late_us >= 0:
            self._attempt += 1
            self._start_by = self._execution.latest_us() + within_us
            last_wall, last_tick = host.wall_us() + within_us, host.tick_us() + within_us
            self._points(Point.BEFORE_INTENT, self._call.name)
            self._intend()
            with self._execution.busy():  # suspended now, it would resume with an intent and no call
                await self._execution.recorder.durable()
            self._points(Point.AFTER_INTENT, self._call.name)
            # The larger of the two counts: the wall clock may have been set back, the ticks may have paused while the
            # host slept.
            late_us = max(host.wall_us() - last_wall, host.tick_us() - last_tick)
        self._execution.check_lease()
        is_unsafe = self._effect is Effect.UNSAFE
        self._acts.unsafe += is_unsafe
        try:
            value, error = await self._execution.perform(
                self._call, self._place, self._step_key, self.key, self._terms.longest_call_us
            )
        finally:
            self._acts.unsafe -= is_unsafe
        self._error = None if error is None else failures.record_error(error)
        self._points(Point.AFTER_SUCCESS, self._call.name)
        if error is None:
            return await self._record_success(value)
        if isinstance(error, (Refused, *self._terms.sent_nothing)) and not self._unexplained:
            return await self._did_nothing(error)
        return await self._ambiguous(error)

    def _intend(self) -> None:
        call, terms = self._call, self._terms
        event = ToolCalled(
            self._step_key,
            call.name,
            self._effect,
            self._digest,
            self.key,
            generation=self.generation,
            attempt=self._attempt,
            args=call.args,
            start_by=self._start_by,
            longest_call_us=terms.longest_call_us,
            approval_id=self._approval_id,
        )
        self._execution.recorder.record(event, row=self._row(CallStatus.PREPARED), guarded=True)
        if self._recorded is not None:
            self._recorded.begin_attempt()

    async def _record_success(self, result: Any, *, adopted: bool = False) -> Any:
        """Records that the call happened, even if its result cannot be stored; the code gets the result in its turn."""
        value, lost = keep_value(result)
        recorded_error = None if lost is None else failures.record_error(lost)
        event = ToolReturned(
            self._step_key, self.generation, result=value, adopted=adopted, error=recorded_error
        )
        await self._settle(event, CallStatus.SUCCEEDED)
        if lost is not None:
            raise lost
        return value

    async def _did_nothing(self, error: Exception) -> Any:
        """The receiver got nothing: the call is repeated by its policy, or the code gets the error."""
        is_covered = isinstance(error, self._terms.sent_nothing) or self._terms.retry.covers(error)
        if self._failed_attempts < self._attempts_max and is_covered:
            await self._retry_later(error, sent_nothing=True)
            return await self._fire()
        return await self._record_refusal(error)

    async def _retry_later(self, error: Exception, *, sent_nothing: bool = False) -> None:
        """Records the failed attempt, and waits for the next one."""
        self._begin_record()
        await self._execution.wait_for_attempt(self._record_failure(error, sent_nothing=sent_nothing))

    def _record_failure(self, error: Exception, *, sent_nothing: bool = False, next_at: int = 0) -> int:
        return self._execution.record_retry(
            self._step_key,
            self._digest,
            self.generation,
            self._terms,
            error,
            self._failed_attempts,
            sent_nothing=sent_nothing,
            next_at=next_at,
        )

    async def _record_refusal(self, error: Exception) -> Any:
        event = ToolFailed(self._step_key, self.generation, error=failures.record_error(error))
        await self._settle(event, CallStatus.FAILED)
        return self._execution.deliver_result(None, error, self._call, self._step_key)

    async def _settle(self, event: ToolReturned | ToolFailed, status: CallStatus) -> None:
        stamp = self._execution.recorder.record(event, row=self._row(status), progress=True)
        self._points(Point.BEFORE_LEDGER, self._call.name)
        if self._points is not ignore_point:
            await self._execution.wait_until_durable(stamp)
            self._points(Point.AFTER_LEDGER, self._call.name)
        await self._execution.hand_over(stamp)

    async def _ambiguous(self, error: Exception) -> Any:
        """The outcome is unknown: recovery continues as if the worker had died."""
        is_retried = self._failed_attempts < self._attempts_max and self._terms.retry.covers(error)
        if self._effect is Effect.IDEMPOTENT and is_retried:
            await self._retry_later(error)
            self._unexplained = True  # a receiver that refuses the next request has not answered this one
            return await self._fire()
        if self._effect is Effect.IDEMPOTENT or self._terms.relaunch:
            # Repeated in the next attempt of the job, after a while; until then the code does not continue.
            self._execution.fail(error)
            await asyncio.get_running_loop().create_future()
        self._begin_record()
        if self._effect is Effect.VERIFIABLE:
            self._record_failure(error, next_at=self._quiet_after_failure())
        self._answer = None
        return await self.outcome()

    def _begin_record(self) -> None:
        """Makes the call an open record, as if this run had found it in the journal."""
        if self._recorded is None or self._recorded.generation != self.generation:
            self._recorded = Recorded(
                self._step_key,
                self._digest,
                generation=self.generation,
                effect=self._effect,
                name=self._call.name,
                first_start_by=self._start_by,
                longest_call_us=self._terms.longest_call_us,
            )
            self._execution.history.begin(self._recorded)
        self._recorded.status = CallStatus.PREPARED
        self._recorded.attempt, self._recorded.start_by = self._attempt, self._start_by

    def _abandon(self, recorded: Recorded) -> None:
        """Abandons a cut-off call whose output was not found: the call is made anew."""
        event = ToolReconciled(
            self._step_key,
            "relaunch",
            by="holdfast",
            why="cut off, and its output is not there",
            generation=self.generation,
        )
        self._execution.note(event, row=self._row(CallStatus.ABANDONED))
        assert recorded.status is CallStatus.ABANDONED

    # ── probes and people ─────────────────────────────────────────────────────────────────────────

    async def _ask_receiver(self) -> ProbeResult | None:
        """Returns the receiver's answer; None, if the probe failed and is to be repeated. A probe that keeps failing
        counts as `cannot tell`."""
        assert self._terms.probe is not None
        assert self._recorded is not None
        await self._execution.wait_for_attempt(self._recorded.retry_at)
        with self._execution.busy(), self._place.within(self._step_key):
            try:
                return await self._terms.probe(self.key, self._call.args)
            except Exception as error:
                failed = error
        attempt = self._recorded.probes_failed + 1
        if attempt >= self._attempts_max:
            return ProbeResult(ProbeAnswer.CANNOT_TELL)
        at = self._execution.record_retry(
            self._step_key, self._digest, self.generation, self._terms, failed, attempt, is_probe=True
        )
        await self._execution.wait_for_attempt(at)
        return None

    async def _ask_person(self) -> None:
        """Marks the call as `uncertain`; the job is suspended until a person decides what happened."""
        assert self._recorded is not None
        if self._recorded.status is not CallStatus.UNCERTAIN:
            why = f"{_describe_doubt(self._error)}; {_WHY[self._effect]}"
            self._execution.recorder.record(
                ToolUncertain(self._step_key, self.generation, why=why, error=self._error),
                row=self._row(CallStatus.UNCERTAIN),
            )
            self._recorded.status, self._recorded.raised = CallStatus.UNCERTAIN, self._error
        await self._execution.waits.wait_for_topic(WaitReason.RECONCILE, self._step_key)

    def _row(self, status: CallStatus) -> CallRow:
        return CallRow(
            tool_call_id=call_id(self._owner.job_id, self._step_key, self.generation),
            job_id=self._owner.job_id,
            step_key=self._step_key,
            generation=self.generation,
            tool_name=self._call.name,
            raw_tool_name=self._call.name,
            side_effect_class=self._effect,
            status=status,
            idempotency_key=self.key,
            args_digest=self._digest,
            attempt=max(self._attempt, 1),
            fence=self._owner.fence,
            start_by=self._start_by,
            longest_call_us=self._terms.longest_call_us,
            approval_id=self._approval_id,
        )


def _describe_doubt(error: dict[str, Any] | None) -> str:
    """Why the outcome of a call is unknown: the error that it raised, or the death of its worker."""
    if error is None:
        return "cut off after the call had begun"
    return f"raised {format_error(error)[:_ERROR_SHOWN_MAX]}; it may or may not have happened"


_ERROR_SHOWN_MAX: Final = 500
_WHY: Final = {
    Effect.UNSAFE: "it is unsafe to repeat and cannot be looked up",
    Effect.VERIFIABLE: "its receiver cannot tell whether it happened",
    Effect.IDEMPOTENT: "its receiver no longer remembers the key",
}
