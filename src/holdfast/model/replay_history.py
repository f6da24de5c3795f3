"""Replay history: the record of each call since the job's last checkpoint. Replay reads from it.

A job that is resumed runs its function from the top. Every durable call has a step key, and a call whose key is
recorded here is not made again. A record can hold three things: the outcome of the call (and its `seq`), that the code
stopped waiting for it (a timeout cancelled it), and, for an effect, its intent.

Keys restart with every commit, under a new ordinal, so the history keeps only the calls after the last commit. Signals
that no wait has taken and children that have not ended are kept across commits: the code has yet to receive them.
`checkpoint_snapshot` stores all of that, so that a long journal need not be read from its first event.

Every event has a *job time*: its time in the journal, which never goes back. The periods in which no worker held the
job are kept apart (`gaps`), because short timers of the code do not count them.

A record is *claimed* by the call that looks it up under its key and arguments. A call without a record of its own may
*adopt* one that no call has claimed when its turn comes, if name and arguments are the same: the code was renamed, the
call is the same. The event `call_moved` records that.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Iterable, Iterator
from typing import Any, Final, NamedTuple

import msgspec

from holdfast.model import events as e
from holdfast.model.budget import BudgetStops
from holdfast.model.python_pin import FOUND
from holdfast.model.side_effects import DECIDED, CallStatus, Effect
from holdfast.model.states import Status
from holdfast.model.step_keys import NO_ARGS, call_name, is_within, scope_of

STARTED: Final = "started"
SUCCEEDED: Final = "succeeded"
"""States of a plan's node."""

_SUCCEEDED: Final = CallStatus.SUCCEEDED
_FAILED: Final = CallStatus.FAILED
_STEP: Final = e.StepFinished
"""As names of this module: looking them up in their class or module takes half as long as creating the record."""


class Gap(NamedTuple):
    """A period without a worker: it ended with the claim at `seq`; `last_at` is the job time of the event before."""

    seq: int
    last_at: int
    length_us: int


class History:
    """The calls since the last commit, and which of them the code has not made in this run yet (unclaimed)."""

    def __init__(self) -> None:
        self.ordinal = 0
        self.state: Any = None
        self.evidence: Any = None
        self.approvals: dict[str, RecordedApproval] = {}
        self.plans: dict[str, bool] = {}
        """The plans that were made, and whether this run follows them already."""
        self.nodes: dict[tuple[str, str], str] = {}
        """State of each node of a plan: `started`, or its outcome."""
        self.children: dict[str, str] = {}
        self.worker, self.claims = "", 0
        self.resumed_at = 0  # when a person last resumed the job
        self.origin = ""
        """The digest of the job's first event, set by the reader of the journal."""
        self.heard = 0
        """Number of the last mail that has become an event."""
        self.cancelled = False
        self.pythons: set[str] = set()
        self._calls: dict[str, Recorded] = {}
        """The newest record of each key; `before` links it to older ones."""
        self._unclaimed: dict[str, Recorded] = {}
        """The records that no call has claimed yet, in the order of their intents."""
        self._moved: dict[tuple[str, str], str] = {}
        self.retries: dict[str, e.CallRetried] = {}
        """The last failed attempt of each read that is to be made again."""
        self._adoptable: defaultdict[tuple[str, str], deque[Recorded]] | None = None
        self.start_at: int | None = None
        """Job time at which the code starts: the first claim, or the last commit."""
        self.last_at = 0
        """Job time of the last event."""
        self.gaps: list[Gap] = []
        self.signals: dict[str, deque[RecordedSignal]] = defaultdict(deque)
        self._parked: tuple[str, ...] = ()
        self.misfit: str | None = None
        self.born = 0
        self.stops = BudgetStops()
        self.budgets: tuple[str, ...] = ()
        self.request: RecordedRequest | None = None  # the last model request: most begin with the one before
        self._requests: dict[str, e.LlmRequested] = {}

    def find(self, step_key: str, args_digest: str) -> Recorded | None:
        """The newest record of this call, with the same arguments, which the call claims by that."""
        recorded = self._calls.get(step_key)
        if not self._moved:  # the usual case; most keys then have no record or one
            if recorded is None:
                return None
            if recorded.args_digest == args_digest and recorded.before is None and not recorded.generation:
                self._unclaimed.pop(step_key, None)
                return None if recorded.retired else recorded
        requested_key = step_key
        if self._moved:
            step_key = self._moved.get((requested_key, args_digest), requested_key)
        recorded = self._calls.get(step_key)
        while recorded is not None and recorded.args_digest != args_digest:
            recorded = recorded.before
        if recorded is None or (recorded.moved_to is not None and recorded.moved_to != requested_key):
            return None
        if self._unclaimed:
            if recorded.before is None and not recorded.generation:
                self._unclaimed.pop(step_key, None)
            else:
                self._claim(recorded)
        return None if recorded.retired else recorded

    def _claim(self, recorded: Recorded | None) -> None:
        """Claim this record, and the older ones of the same call that it replaced."""
        digest = "" if recorded is None else recorded.args_digest
        while recorded is not None:
            if recorded.args_digest == digest:
                self._unclaimed.pop(recorded.unclaimed_key, None)
            recorded = recorded.before

    def find_adoptable(self, name: str, args_digest: str) -> Recorded | None:
        """The first unclaimed record with this name and these arguments."""
        if not self._unclaimed:
            return None
        if self._adoptable is None:
            self._adoptable = defaultdict(deque)
            for recorded in self._unclaimed.values():
                if recorded.args_digest not in {"", NO_ARGS}:
                    place = (call_name(recorded.step_key), recorded.args_digest)
                    self._adoptable[place].append(recorded)
        found = self._adoptable.get((name, args_digest))
        while found:
            if self.is_unclaimed(found[0]):
                return found[0]
            found.popleft()
        return None

    def is_unclaimed(self, recorded: Recorded) -> bool:
        """Whether no call has claimed this record, and one still may."""
        return not recorded.retired and self._unclaimed.get(recorded.unclaimed_key) is recorded

    def find_drifted(self, step_key: str, args_digest: str) -> Recorded | None:
        """The newest record under this key that was made with other arguments."""
        newest = self._calls.get(step_key)
        if newest is None or newest.args_digest == args_digest:
            return None
        return None if newest.retired or newest.accepted else newest

    def find_answered_request(self, step_key: str, args_digest: str) -> Recorded | None:
        """The model request that was made under this key with another identity, if its response is recorded."""
        recorded = self.find_drifted(step_key, args_digest)
        if recorded is None or recorded.status is not _SUCCEEDED:
            return None
        return recorded if f"{step_key}@{recorded.generation}" in self._requests else None

    def request_parts(self, recorded: Recorded) -> tuple[tuple[str, ...], bool]:
        """The digests of the parts of a recorded request, as far back as this history goes, and whether it begins with
        parts that are stored elsewhere: in a session, or in a request before the last commit."""
        parts: tuple[str, ...] = ()
        request = self._requests.get(f"{recorded.step_key}@{recorded.generation}")
        after = ""
        while request is not None:
            parts, after = (*request.messages, *parts), request.after
            request = self._requests.get(after)
        return parts, bool(after)

    def begin(self, recorded: Recorded) -> None:
        """Add a call that is claimed from the start: a read, or an intent of this run."""
        recorded.before = self._calls.get(recorded.step_key)
        self._calls[recorded.step_key] = recorded

    def uncertain(self, step_key: str, generation: int) -> Recorded | None:
        """The call, if it waits for a person's decision."""
        newest = self._calls.get(step_key)
        if newest is None or newest.generation != generation or newest.status is not CallStatus.UNCERTAIN:
            return None
        return newest

    def find_uncertain(self) -> list[Recorded]:
        """The calls that wait for a person's decision."""
        return [recorded for recorded in self._calls.values() if recorded.status is CallStatus.UNCERTAIN]

    def next_generation(self, step_key: str) -> int:
        if step_key not in self._calls:
            return 0
        return sum(1 for _ in self._all_of(step_key))

    def _all_of(self, step_key: str) -> Iterator[Recorded]:
        """The records of a key, newest first."""
        recorded = self._calls.get(step_key)
        while recorded is not None:
            yield recorded
            recorded = recorded.before

    @property
    def has_unclaimed(self) -> bool:
        """Whether any record is unclaimed."""
        return bool(self._unclaimed)

    @property
    def has_unclaimed_effects(self) -> bool:
        """Whether an effect is recorded that the code has not claimed: until it is, no new effect may fire."""
        return any(record.effect is not Effect.READ_ONLY for record in self._unclaimed.values())

    def find_unclaimed_effects(self) -> list[Recorded]:
        return [record for record in self._unclaimed.values() if record.effect is not Effect.READ_ONLY]

    @property
    def horizon(self) -> tuple[int, int] | None:
        """Seq and job time of the last unclaimed record: timers due by then fired before it."""
        if not self._unclaimed:
            return None
        last = next(reversed(self._unclaimed.values()))
        return last.begun_seq, last.begun_at

    def add(self, recorded: Recorded) -> None:
        self.begin(recorded)
        self._unclaimed[recorded.unclaimed_key] = recorded

    def note(self, seq: int, event: e.Event, at: int) -> None:
        """Add an event that this run has recorded itself: its call counts as claimed."""
        self.take(seq, event, at)
        step_key = getattr(event, "step_key", None)
        # A repurchase means that the code has not claimed the record: another call may still do so.
        if step_key is not None and type(event) is not e.LlmRepurchased:
            self._claim(self._calls.get(step_key))

    def child(self, step_key: str, child_job_id: str) -> Recorded | None:
        """The call that started this child and waits for it."""
        newest = self._calls.get(step_key)
        if newest is None or newest.child_job_id != child_job_id or newest.seq is not None:
            return None
        return newest

    def next_signal(self, name: str) -> RecordedSignal | None:
        """The oldest signal of this name that no wait has taken; it stays until the event `signal_taken`."""
        waiting = self.signals.get(name)
        return waiting[0] if waiting else None

    # ── reading the journal ───────────────────────────────────────────────────────────────────────

    def take(self, seq: int, event: e.Event, at: int = 0) -> None:
        """Add one event at this time."""
        if type(event) is _STEP:  # first, because most events are steps
            if at < self.last_at:
                at = self.last_at  # job time does not go back
            else:
                self.last_at = at
            step_key, calls, generation = event.step_key, self._calls, event.generation
            recorded = calls[step_key] = Recorded(
                step_key,
                event.args_digest,
                generation=generation,
                seq=seq,
                at=at,
                status=_SUCCEEDED if event.outcome == SUCCEEDED else _FAILED,
                result=event.result,
                error=event.error,
                before=calls.get(step_key),
            )
            self._unclaimed[recorded.unclaimed_key if generation else step_key] = recorded
            return
        clock_at, at = at, max(at, self.last_at)
        if type(event) is e.JobClaimed:
            self._drive_on(seq, event, at, clock_at)
            return
        self.last_at = at
        match event:
            case e.CheckpointSaved():
                self._commit(event)
            case e.JobParked():
                report = event.report or {}
                self._parked = tuple(call["step_key"] for call in report.get("recorded", ()))
                self.misfit = report.get(FOUND)
            case e.JobRequeued():
                self._rerun(event.rerun)
                if event.mail_seq:
                    self._count_attempts_anew()
                if event.accepted:
                    self._accept()
            case e.TimerSet():
                self._set_timer(seq, event)
            case e.TimerFired():
                timer = self._calls[event.step_key]
                timer.seq, timer.at = seq, at
            case e.SignalReceived():
                self.signals[event.name].append(RecordedSignal(event.name, event.mail_seq, event.body))
            case e.SignalTaken():
                self._take_signal(seq, event)
            case e.ApprovalRequested() | e.ApprovalDecided():
                self._approve(seq, event)
            case e.ChildStarted() | e.ChildFinished():
                self._apply_child(seq, event)
            case e.CallCancelled():
                self._cancel(seq, event)
            case e.LlmRequested() | e.LlmResponded():
                self._apply_model_request(seq, event)
            case e.ToolCalled():
                self._intend(seq, event)
            case e.ToolReturned():
                self._settle(seq, event, CallStatus.SUCCEEDED, result=event.result, error=event.error)
            case e.ToolFailed():
                self._settle(seq, event, CallStatus.FAILED, error=event.error)
            case e.BudgetReached() | e.BudgetRaised() | e.JobWaiting():
                self.stops.take(event)
            case e.ToolUncertain():
                self._mark_uncertain(event)
            case e.ToolReconciled():
                self._decide(seq, event)
            case _:
                self._take_rare(seq, event)

    def _drive_on(self, seq: int, event: e.JobClaimed, at: int, clock_at: int) -> None:
        """A worker claims the job. The shared history of a fork is older than the fork."""
        self.worker, self.claims = event.worker, self.claims + 1
        if self.start_at is None:
            self.start_at = self.last_at = clock_at
            return
        self.gaps.append(Gap(seq, self.last_at, at - self.last_at))
        self.last_at = at

    def _commit(self, event: e.CheckpointSaved) -> None:
        self.ordinal = event.ordinal  # keys restart under it
        self._calls, self._unclaimed, self._moved, self.approvals = {}, {}, {}, {}
        self._requests, self.retries, self._adoptable = {}, {}, None
        self.start_at, self.gaps = self.last_at, []
        self.plans, self.nodes = {}, {}
        self.state, self.evidence = event.state, event.evidence
        if event.carries is not None:
            self.request = None  # a resume from this checkpoint has no earlier request

    def _take_rare(self, seq: int, event: e.Event) -> None:
        match event:
            case e.QuestionAsked():
                self.add(
                    Recorded(
                        event.step_key,
                        event.args_digest,
                        seq=seq,
                        at=self.last_at,
                        name=event.question_id,
                        due_at=event.due_at,
                    )
                )
            case e.PlanGenerated():
                self._plan(seq, event)
            case e.NodeStarted():
                self.nodes[event.plan_id, event.node] = STARTED
            case e.NodeFinished():
                self.nodes[event.plan_id, event.node] = event.outcome
            case e.CallMoved():
                self._move(event)
            case e.CallRetried():
                self._retry(event)
            case e.CancelRequested():
                self.cancelled = True
            case _:
                pass

    def _plan(self, seq: int, event: e.PlanGenerated) -> None:
        self.plans[event.plan_id] = False
        plan = Recorded(event.step_key, "", seq=seq, at=self.last_at, name=event.plan_id, result=event.plan)
        self.add(plan)
        for key in [key for key in self._unclaimed if is_within(scope_of(event.step_key), key)]:
            del self._unclaimed[key]  # the planner does not run again, so its calls need no claim

    def _rerun(self, step_keys: tuple[str, ...]) -> None:
        """Forget the failures of these calls and what followed from them.

        What the code gave up after the first failure, it gave up because of it. And an effect that came after it (in a
        `finally`) need not be claimed before others fire: this time the code may reach it later, or not at all.
        """
        # A call that a person declared failed may have happened: it stays failed in every later attempt.
        step_keys = tuple(key for key in step_keys if not self._calls[key].final)
        first = min((self._calls[key].seq or 0 for key in step_keys), default=None)
        for key in step_keys:
            self.retries.pop(key, None)
            self._calls[key].retired = True
            self._claim(self._calls[key])
        if first is None:
            return
        for newest in self._calls.values():
            if newest.cancelled_seq is not None and newest.cancelled_seq > first:
                newest.cancelled_seq = None
                newest.retired = newest.seq is None and newest.effect is Effect.READ_ONLY
            if newest.intent_seq is not None and newest.intent_seq > first:
                self._claim(newest)
        self.nodes = {place: state for place, state in self.nodes.items() if state == SUCCEEDED}

    def _accept(self) -> None:
        """A person accepted the report of a parked job: the code need not make the calls that it lists, and may make
        them with other arguments. A call that is made with the same arguments gets its record: the report lists all
        unclaimed records, and the code reaches most of them later."""
        if self.misfit is not None:
            self.pythons.add(self.misfit)
        for key in self._parked:
            for recorded in self._all_of(key):
                recorded.accepted = True
                self._unclaimed.pop(recorded.unclaimed_key, None)

    def _take_signal(self, seq: int, event: e.SignalTaken) -> None:
        """A wait that ended without a signal counts as failed."""
        wait = self._calls.get(event.step_key)
        if wait is None:
            wait = Recorded(event.step_key, event.args_digest, intent_at=self.last_at)
            self.add(wait)
        wait.seq, wait.at = seq, self.last_at
        if event.mail_seq is None:
            wait.status, wait.final = CallStatus.FAILED, True
            wait.error = {"type": "TimeoutError", "message": f"no signal {event.name!r} in time"}
            return
        signal = self.signals[event.name].popleft()
        assert signal.mail_seq == event.mail_seq, "signals of one name are taken in their order"
        wait.status, wait.result = CallStatus.SUCCEEDED, signal.body

    def _approve(self, seq: int, event: e.ApprovalRequested | e.ApprovalDecided) -> None:
        if isinstance(event, e.ApprovalRequested):
            self.approvals[event.approval_id] = RecordedApproval(
                event.step_key, event.args_digest, event.expires_at or 0
            )
            return
        approval = self.approvals[event.approval_id]
        approval.decision, approval.by, approval.why = event.decision, event.by, event.why
        approval.seq, approval.at = seq, self.last_at

    def _apply_child(self, seq: int, event: e.ChildStarted | e.ChildFinished) -> None:
        if isinstance(event, e.ChildStarted):
            self.children[event.child_job_id] = event.step_key
            self.born += 1
            self.add(
                Recorded(
                    event.step_key,
                    event.args_digest,
                    generation=event.generation,
                    effect=Effect.IDEMPOTENT,
                    name=event.kind,
                    intent_seq=seq,
                    intent_at=self.last_at,
                    child_job_id=event.child_job_id,
                )
            )
            return
        self.children.pop(event.child_job_id, None)
        waiting = self.child(event.step_key, event.child_job_id)
        if waiting is not None:
            done = event.status == Status.COMPLETED
            waiting.seq, waiting.at = seq, self.last_at
            waiting.result, waiting.error = event.result, event.error
            waiting.status, waiting.final = CallStatus.SUCCEEDED if done else CallStatus.FAILED, True

    def _apply_model_request(self, seq: int, event: e.LlmRequested | e.LlmResponded) -> None:
        if isinstance(event, e.LlmResponded):
            request = self._newest(event.step_key, event.generation)
            request.seq, request.at = seq, self.last_at
            request.result, request.error = event.response, event.error
            request.status = CallStatus.SUCCEEDED if event.error is None else CallStatus.FAILED
            return
        newest = self._calls.get(event.step_key)
        if newest is not None and newest.generation == event.generation:
            newest.attempt = event.attempt  # interrupted, and sent again
            return
        self.add(
            Recorded(
                event.step_key,
                event.args_digest,
                generation=event.generation,
                name=event.model,
                intent_seq=seq,
                intent_at=self.last_at,
                attempt=event.attempt,
            )
        )
        self._requests[f"{event.step_key}@{event.generation}"] = event
        begins = self.request.parts if self.request is not None and event.after == self.request.place else ()
        self.request = RecordedRequest(f"{event.step_key}@{event.generation}", (*begins, *event.messages))

    def _intend(self, seq: int, event: e.ToolCalled) -> None:
        newest = self._calls.get(event.step_key)
        if newest is not None and newest.generation == event.generation:
            # Sent again under the same key.
            newest.attempt, newest.start_by, newest.worker = event.attempt, event.start_by, self.worker
            newest.begin_attempt()
            newest.status, newest.cancelled_seq = CallStatus.PREPARED, None  # a cancel before it was void
            newest.raised = None
            return
        self.add(
            Recorded(
                event.step_key,
                event.args_digest,
                generation=event.generation,
                effect=Effect(event.effect),
                name=event.tool,
                intent_seq=seq,
                intent_at=self.last_at,
                status=CallStatus.PREPARED,
                attempt=event.attempt,
                first_start_by=event.start_by,
                start_by=event.start_by,
                longest_call_us=event.longest_call_us,
                approval_id=event.approval_id,
                worker=self.worker,
            )
        )

    def _settle(
        self,
        seq: int,
        event: e.ToolReturned | e.ToolFailed,
        status: CallStatus,
        result: Any = None,
        error: Any = None,
    ) -> None:
        recorded = self._newest(event.step_key, event.generation)
        recorded.seq, recorded.at = seq, self.last_at
        recorded.status, recorded.result, recorded.error = status, result, error

    def _mark_uncertain(self, event: e.ToolUncertain) -> None:
        recorded = self._newest(event.step_key, event.generation)
        recorded.status, recorded.raised = CallStatus.UNCERTAIN, event.error

    def _decide(self, seq: int, event: e.ToolReconciled) -> None:
        recorded = self._newest(event.step_key, event.generation)
        recorded.status = DECIDED[event.decision]
        if recorded.status is not CallStatus.ABANDONED:
            recorded.seq, recorded.at = seq, self.last_at
            recorded.result, recorded.final = event.result, True
            if recorded.status is CallStatus.FAILED:
                recorded.error = {"type": "CallFailed", "message": event.why}

    def _cancel(self, seq: int, event: e.CallCancelled) -> None:
        known = self._calls.get(event.step_key)
        if known is None or known.generation != event.generation:
            self.add(Recorded(event.step_key, event.args_digest, generation=event.generation))
        newest = self._newest(event.step_key, event.generation)
        newest.cancelled_seq, newest.cancelled_at = seq, self.last_at

    def _set_timer(self, seq: int, event: e.TimerSet) -> None:
        known = self._calls.get(event.step_key)
        if known is not None and known.args_digest == event.args_digest and known.due_at == event.due_at:
            known.cancelled_seq = None  # set again, because a cancel before it was void
            return
        self.add(
            Recorded(
                event.step_key,
                event.args_digest,
                intent_seq=seq,
                intent_at=self.last_at,
                due_at=event.due_at,
            )
        )

    def _move(self, event: e.CallMoved) -> None:
        """The call under `step_key` is the recorded one, here and in every replay."""
        recorded = self._calls[event.recorded_key]
        while recorded.generation != event.generation and recorded.before is not None:
            recorded = recorded.before
        self._moved[event.step_key, event.args_digest] = event.recorded_key
        recorded.moved_to = event.step_key

    def find_retry(self, step_key: str, args_digest: str) -> e.CallRetried | None:
        """The last failed attempt of a read that has no outcome yet."""
        retried = self.retries.get(step_key)
        return retried if retried is not None and retried.args_digest == args_digest else None

    def _retry(self, event: e.CallRetried) -> None:
        recorded = self._calls.get(event.step_key)
        if recorded is None or recorded.generation != event.generation or recorded.seq is not None:
            self.retries[event.step_key] = event
            return
        recorded.retry_at = event.next_at
        if event.probe:
            recorded.probes_failed = event.attempt
        else:
            recorded.failed_attempts, recorded.probes_failed = event.attempt, 0
            recorded.sent_nothing, recorded.raised = event.sent_nothing, event.error
            recorded.quiet_at = event.next_at if recorded.effect is Effect.VERIFIABLE else 0

    def _count_attempts_anew(self) -> None:
        """A person requeued the job: open calls get all their attempts again."""
        self.retries, self.resumed_at = {}, self.last_at
        for recorded in self._calls.values():
            recorded.failed_attempts = recorded.probes_failed = recorded.retry_at = 0

    def _newest(self, step_key: str, generation: int) -> Recorded:
        recorded = self._calls[step_key]
        assert recorded.generation == generation, "an outcome follows its own intent"
        return recorded


def history_of(events: Iterable[tuple[int, e.Event, int]]) -> History:
    """The history after these (seq, event, time) tuples."""
    history = History()
    for seq, event, at in events:
        history.take(seq, event, at)
    return history


class Recorded(msgspec.Struct, gc=False):
    """One call under one step key and generation, as the journal records it."""

    step_key: str
    args_digest: str
    generation: int = 0
    effect: Effect = Effect.READ_ONLY
    name: str = ""
    intent_seq: int | None = None
    intent_at: int = 0
    seq: int | None = None
    at: int = 0
    """Job time of the outcome at `seq`: when the code gets it."""
    cancelled_seq: int | None = None
    cancelled_at: int = 0
    was_cancelled: bool = False
    """The call was cancelled once, and the cancel was void."""
    status: CallStatus | None = None
    result: Any = None
    error: Any = None
    raised: Any = None
    """The error of the last attempt, if it did not settle the call. For display only: recovery does not depend on it.
    """
    due_at: int | None = None
    attempt: int = 1
    failed_attempts: int = 0
    """How many attempts raised or timed out since a person last requeued the job."""
    sent_nothing: bool = False
    """The last attempt failed before anything was sent."""
    quiet_at: int = 0
    """When the last attempt ended without a result: from then on the receiver can be probed."""
    probes_failed: int = 0
    retry_at: int = 0
    """The next attempt does not start before this time."""
    first_start_by: int | None = None
    start_by: int | None = None
    longest_call_us: int | None = None
    child_job_id: str | None = None
    approval_id: str | None = None
    worker: str = ""
    moved_to: str | None = None
    """The step key under which the code makes this call now, if it adopted the record under another one."""
    retired: bool = False
    accepted: bool = False
    final: bool = False
    """The outcome is final (a person's decision, the end of a child, a wait that timed out): a rerun does not repeat
    the call."""
    before: Recorded | None = None
    """The record of the same key before this one: made with other arguments, or given up for a new one."""

    def begin_attempt(self) -> None:
        """Another attempt is intended: forget how the last one ended."""
        self.sent_nothing, self.quiet_at = False, 0

    @property
    def unclaimed_key(self) -> str:
        return self.step_key if self.generation == 0 else f"{self.step_key}@{self.generation}"

    @property
    def begun_seq(self) -> int:
        """Seq of the first event of this call."""
        return self.intent_seq or self.seq or self.cancelled_seq or 0

    @property
    def begun_at(self) -> int:
        """Job time at which the code had certainly made this call."""
        return self.intent_at or self.at or self.cancelled_at

    @property
    def settled(self) -> bool:
        return self.seq is not None or self.cancelled_seq is not None

    @property
    def told(self) -> dict[str, str]:
        return {"step_key": self.step_key, "name": self.name, "args_digest": self.args_digest}


class RecordedSignal(msgspec.Struct, frozen=True):
    """A received signal, for a wait of this name."""

    name: str
    mail_seq: int
    body: Any


class RecordedRequest(msgspec.Struct, frozen=True):
    """A request to a model: where it was made, and the digests of all its parts."""

    place: str
    parts: tuple[str, ...]


class RecordedApproval(msgspec.Struct):
    """An approval request for one call with exactly these arguments, and the decision, if there is one."""

    step_key: str
    args_digest: str
    expires_at: int
    decision: str | None = None
    by: str = ""
    why: str = ""
    seq: int | None = None
    at: int = 0
