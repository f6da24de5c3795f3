"""Every error Holdfast raises, and what each one asks of you.

An error answers three questions: whose move is it, may I try again, what do I type now.

    HoldfastError                 .code  .retry  .hint
    ├── Misuse                    the caller's mistake; the same call fails again
    │   ├── NotFound              no such job, session, blob …
    │   ├── InvalidPayload        not JSON we store: NaN, duplicate keys, too deep
    │   │   └── TooLarge          larger than the limit named in the message
    │   ├── InvalidName           an id or key with characters or a length we refuse
    │   ├── InvalidMove           this state does not allow that
    │   ├── InvalidPlan           a cycle, a missing or a forward reference
    │   ├── NotAllowed            the server does not take this: method, host, origin, kind of content
    │   ├── Unauthorized          the server does not know you: no key, or none that opens it
    │   ├── Forbidden             the server knows you, and your role does not reach this
    │   └── InvalidSetting        a store address, flag or variable that makes no sense
    ├── Conflict                  somebody was first; read again, decide again
    │   ├── Fenced                the job has a new holder; stop driving it
    │   ├── MailWaiting           read your mail before you wait, finish or fire
    │   ├── HeadMoved             the session's head is not the one you built on
    │   ├── TurnConflict          this turn id was committed with other content
    │   ├── ClaimLost             the inbox claim belongs to somebody else now
    │   ├── SessionBound          this handle is bound to another session
    │   ├── KeyReused             the same idempotency key with another body
    │   ├── LeaseLost             the work item is not yours any more
    │   │   ├── LeaseExpired      your time was over before you came back
    │   │   └── LeaseTaken        another worker has it
    │   ├── CallUncertain         an earlier try of this call may have happened; a person must say
    │   └── EvidenceFails         what a checkpoint claims is not true now
    ├── Unavailable               the environment; try later
    │   ├── Busy                  the queue takes no more now; nothing was written
    │   ├── StoreBusy             no turn to write within the time limit; nothing was written
    │   ├── StoreUnavailable      the database does not answer; nothing was written
    │   ├── OutcomeUnknown        the connection died during COMMIT; ask by operation id
    │   ├── NotOver               the job has not ended within the time; it goes on
    │   ├── StoreFull             no room on the disk; nothing was written
    │   └── StoreReadOnly         the file or its folder cannot be written
    ├── Unfit                     this store cannot keep what it declares; refused at open
    │   ├── ForeignFile           a file, but not one of ours
    │   ├── SchemaMismatch        older or newer than this code
    │   └── TierNotKept           old library, network filesystem, fsync off …
    ├── InJob                     what durable code gets, and may catch
    │   ├── Refused               raised by a tool: the receiver certainly did nothing
    │   ├── CallFailed            a step or tool raised an error that it did not declare
    │   ├── Denied                a person said no, or nobody said yes in time
    │   ├── PlanFailed            a node of a plan failed, and the plan stopped
    │   ├── Unproven              the evidence of a checkpoint does not hold
    │   └── Withdrawn             the job was cancelled before this could be written or sent
    ├── NoResult                  the job you wait for gives none
    │   ├── JobCancelled          it was cancelled
    │   ├── JobFailed             it was ended as failed
    │   │   └── JobTimedOut       it was not over within its timeout; a CallFailed too, for a parent
    │   └── JobHeld               it waits for a person, who must decide before it goes on
    └── Broken                    a promise does not hold; stop and keep the evidence
        └── StoreCorrupt          a damaged page, row or hash chain

    try:
        await store.jobs.append(append)
    except Fenced:
        ...                       # another worker holds the job: drop it, touch nothing
    except Unavailable as error:
        ...                       # error.retry is True: wait and send the same append again

`.code` is stable and is the same word in HTTP problems, on the command line, in logs and in the documentation.
"""

from __future__ import annotations

from typing import Any, ClassVar


class HoldfastError(Exception):
    """Base of everything Holdfast raises on purpose."""

    code: ClassVar[str] = "error"
    retry: ClassVar[bool] = False
    default_hint: ClassVar[str] = "Run `holdfast doctor` and keep its output."

    def __init__(self, message: str, *, hint: str | None = None) -> None:
        super().__init__(message)
        self.hint = hint if hint is not None else self.default_hint

    def __str__(self) -> str:
        return str(self.args[0])


# ── the caller's mistake ──────────────────────────────────────────────────────────────────────────


class Misuse(HoldfastError):
    code = "misuse"
    default_hint = "Correct the call; sending it again unchanged fails again."


class NotFound(Misuse):
    code = "not_found"
    default_hint = "Check the id and the namespace; `holdfast jobs` lists what is there."


class InvalidPayload(Misuse):
    code = "invalid_payload"
    default_hint = "Send plain JSON: no NaN or Infinity, no duplicate keys, no cycles, at most 62 levels."


class TooLarge(InvalidPayload):
    code = "too_large"
    default_hint = "Store the bytes as an attachment and pass its id instead."


class InvalidName(Misuse):
    code = "invalid_name"
    default_hint = "Use 1 to 200 printable characters without control characters."


class InvalidMove(Misuse):
    code = "invalid_move"
    default_hint = "Read the job again; its state has changed or never allowed this."


class InvalidPlan(Misuse):
    code = "invalid_plan"
    default_hint = "Fix the plan: every reference names an earlier node and there is no cycle."


class NotAllowed(Misuse):
    code = "not_allowed"
    default_hint = "Ask the address that `holdfast serve` printed, with JSON, not from another site's page."


class Unauthorized(Misuse):
    code = "unauthorized"
    default_hint = "Set HOLDFAST_API_KEY to a key from `holdfast key create` that is not over or revoked."


class Forbidden(Misuse):
    code = "forbidden"
    default_hint = "Use a key whose role has this scope; docs/access.md has the table."


class InvalidSetting(Misuse):
    code = "invalid_setting"
    default_hint = "Use sqlite:///file.db, postgresql://user@host/database, or memory:."


# ── somebody was first ────────────────────────────────────────────────────────────────────────────


class Conflict(HoldfastError):
    code = "conflict"
    default_hint = "Read the current state and decide again."


class Fenced(Conflict):
    code = "fenced"
    default_hint = "Another worker holds this job now. Stop driving it; nothing of yours was written."


class MailWaiting(Conflict):
    """Mail arrived that the holder has not read; `.mail_seq` is the newest."""

    code = "mail_waiting"
    default_hint = "Read the job's mail, take it into account, and append again."

    def __init__(self, message: str, *, mail_seq: int, hint: str | None = None) -> None:
        super().__init__(message, hint=hint)
        self.mail_seq = mail_seq


class HeadMoved(Conflict):
    """The session advanced: `.expected` was the caller's revision, `.actual` is the store's."""

    code = "head_moved"
    default_hint = "Load the session again and build the turn on its current head."

    def __init__(self, message: str, *, expected: int, actual: int, hint: str | None = None) -> None:
        super().__init__(message, hint=hint)
        self.expected = expected
        self.actual = actual


class TurnConflict(Conflict):
    code = "turn_commit_conflict"
    default_hint = "This turn id is taken by other content. Use a new turn id for a new turn."


class ClaimLost(Conflict):
    code = "claim_superseded"
    default_hint = "Claim the inbox again; nothing of this commit was written."


class SessionBound(Conflict):
    code = "session_bound"
    default_hint = "Open a handle for the other session; one handle serves one session."


class KeyReused(Conflict):
    """One idempotency key, two bodies: `.stored` and `.sent` are their digests."""

    code = "key_reused"
    default_hint = "Use a new key for a new request, or send the first body again."

    def __init__(self, message: str, *, stored: str, sent: str, hint: str | None = None) -> None:
        super().__init__(message, hint=hint)
        self.stored = stored
        self.sent = sent


class LeaseLost(Conflict):
    code = "lease_lost"
    default_hint = "Stop working on this item; acquire another one."


class LeaseExpired(LeaseLost):
    code = "lease_expired"
    default_hint = "Stop working on this item; acquire it again, with a longer lease or a heartbeat."


class LeaseTaken(LeaseLost):
    code = "lease_taken"
    default_hint = "Another worker has the item. Drop it; nothing of yours was written."


class CallUncertain(Conflict):
    """A call was begun and its outcome is not known; `.step_key` names it in the ledger."""

    code = "call_uncertain"
    default_hint = (
        "Look whether it happened, then say so: "
        "ledger.reconcile(tool_name, command, 'happened' or 'not_happened', why=…)."
    )

    def __init__(self, message: str, *, step_key: str = "", hint: str | None = None) -> None:
        super().__init__(message, hint=hint)
        self.step_key = step_key


class EvidenceFails(Conflict):
    code = "evidence_fails"
    default_hint = "Go back to an earlier checkpoint: get_last_verified_checkpoint(task_id)."


# ── the environment ───────────────────────────────────────────────────────────────────────────────


class Unavailable(HoldfastError):
    code = "unavailable"
    retry = True
    default_hint = "Wait a moment and send the same call again; it is safe to repeat."


class Busy(Unavailable):
    """The queue is full or behind; `.retry_after_s` is when it is worth asking again."""

    code = "busy"
    default_hint = "Send the same request again after a while; nothing was kept. More workers help."

    def __init__(self, message: str, *, retry_after_s: int, hint: str | None = None) -> None:
        super().__init__(message, hint=hint)
        self.retry_after_s = retry_after_s


class StoreBusy(Unavailable):
    code = "store_busy"


class StoreUnavailable(Unavailable):
    code = "store_unavailable"
    default_hint = "Check that the database runs and the address is right, then try again."


class OutcomeUnknown(Unavailable):
    code = "outcome_unknown"
    default_hint = "Send the same call again: it carries its operation id and is applied at most once."


class NotOver(Unavailable):
    code = "not_over"
    default_hint = "The job goes on by itself. Ask again, or see what it waits for with `holdfast job ID`."


class StoreFull(Unavailable):
    code = "store_full"
    default_hint = "Make room on the disk; what was acknowledged is safe and work goes on by itself."


class StoreReadOnly(Unavailable):
    code = "store_read_only"
    default_hint = "Give the process write access to the database file and its folder."


# ── a store that cannot keep its promise ──────────────────────────────────────────────────────────


class Unfit(HoldfastError):
    code = "unfit"


class ForeignFile(Unfit):
    code = "foreign_file"
    default_hint = (
        "Name another file, or move this one away; Holdfast never writes into a file it did not make."
    )


class SchemaMismatch(Unfit):
    code = "schema_mismatch"
    default_hint = "Run `holdfast db migrate`, or install the version of Holdfast that the message names."


class TierNotKept(Unfit):
    code = "tier_not_kept"


# ── inside a job ──────────────────────────────────────────────────────────────────────────────────


class InJob(HoldfastError):
    code = "in_job"
    default_hint = "Catch it in the job's code, or let it end this attempt."


class Refused(InJob):
    code = "refused"
    default_hint = "The receiver did nothing. Correct the call, or let the agent decide what to do instead."


class CallFailed(InJob):
    """`.error_type` is the name of the class that was raised."""

    code = "call_failed"
    default_hint = (
        "Declare the error with `raises=(…)` where the step or tool is declared, to catch it by its class."
    )

    def __init__(self, message: str, *, error_type: str, hint: str | None = None) -> None:
        super().__init__(message, hint=hint)
        self.error_type = error_type


class Denied(InJob):
    """`.by` is who said no; empty when the time was up."""

    code = "denied"
    default_hint = "Nothing was done. Go on without it, or ask again with other arguments."

    def __init__(self, message: str, *, by: str = "", hint: str | None = None) -> None:
        super().__init__(message, hint=hint)
        self.by = by


class PlanFailed(InJob):
    """`.node` is the first node that failed, `.outcomes` how all of them came out, by name."""

    code = "plan_failed"
    default_hint = 'Say on_failure="skip_dependents" or "go_on" to have the outcomes instead of this error.'

    def __init__(
        self, message: str, *, node: str = "", outcomes: Any = None, hint: str | None = None
    ) -> None:
        super().__init__(message, hint=hint)
        self.node = node
        self.outcomes = {} if outcomes is None else outcomes


class Unproven(InJob):
    code = "unproven"
    default_hint = "Do the work again that the evidence is about, then make the checkpoint."


class Withdrawn(InJob):
    code = "withdrawn"
    default_hint = "Nothing to do: the job was cancelled, and nothing of this was written or sent."


# ── waiting for a job ─────────────────────────────────────────────────────────────────────────────


class NoResult(HoldfastError):
    """`.job_id` is the job that was waited for."""

    code = "no_result"
    default_hint = "Read its journal: `holdfast trace JOB`."

    def __init__(self, message: str, *, job_id: str = "", hint: str | None = None) -> None:
        super().__init__(message, hint=hint)
        self.job_id = job_id


class JobCancelled(NoResult):
    code = "job_cancelled"


class JobFailed(NoResult):
    code = "job_failed"


class JobTimedOut(JobFailed, CallFailed):
    """What whoever waits for the job gets, and what its parent gets from `hf.spawn`."""

    code = "job_timed_out"
    default_hint = (
        "See where the time went: `holdfast trace JOB`. Declare a longer one: `@hf.agent(timeout=…)` or `timeout` "
        "in the policy file."
    )

    def __init__(self, message: str, *, job_id: str = "", hint: str | None = None) -> None:
        HoldfastError.__init__(self, message, hint=hint)
        self.job_id = job_id
        self.error_type = JobTimedOut.__name__


class JobHeld(NoResult):
    code = "job_held"
    default_hint = "See what it needs: `holdfast job JOB`."


# ── a promise that does not hold ──────────────────────────────────────────────────────────────────


class Broken(HoldfastError):
    code = "broken"
    default_hint = "Stop writing, keep the files, and run `holdfast db verify`."


class StoreCorrupt(Broken):
    code = "store_corrupt"
