"""Errors: every exception that Holdfast raises, with a stable code, whether to retry, and what to do.

An error answers three questions: who has to act, may the call be repeated, and what to type.

    HoldfastError                 .code  .retry  .hint
    ├── Misuse                    the call is wrong; the same call fails again
    │   ├── NotFound              no such job, session, blob …
    │   ├── InvalidPayload        not valid JSON: NaN, duplicate keys, too deep
    │   │   └── TooLarge          larger than the limit named in the message
    │   ├── InvalidName           an id or key with an invalid character or length
    │   ├── InvalidMove           the current state does not allow it
    │   ├── InvalidPlan           a cycle, a missing or a forward reference
    │   ├── NotAllowed            the server rejects the method, host, origin or content type
    │   ├── Unauthorized          the API key is missing, unknown, expired or revoked
    │   ├── Forbidden             the role of the API key does not allow it
    │   └── InvalidSetting        an invalid store address, option or variable
    ├── Conflict                  another writer was first; read again, decide again
    │   ├── Fenced                another worker holds the job; stop running it
    │   ├── MailWaiting           the job has unread mail; read it first
    │   ├── HeadMoved             the session has moved on since it was read
    │   ├── TurnConflict          this turn id was committed with other content
    │   ├── ClaimLost             another worker has the inbox claim now
    │   ├── SessionBound          this handle is bound to another session
    │   ├── KeyReused             the same idempotency key with another body
    │   ├── LeaseLost             the lease of the work item is lost
    │   │   ├── LeaseExpired      the lease expired
    │   │   └── LeaseTaken        another worker holds the lease
    │   ├── CallUncertain         an earlier attempt may have happened; a person decides
    │   └── EvidenceFails         the evidence of a checkpoint does not verify
    ├── Unavailable               the environment; try later
    │   ├── Busy                  a queue or rate limit is reached; nothing was written
    │   ├── StoreBusy             the write lock was not free in time; nothing was written
    │   ├── StoreUnavailable      the database does not answer; nothing was written
    │   ├── OutcomeUnknown        the connection broke during COMMIT; repeat the call
    │   ├── NotOver               the job has not ended in time; it continues
    │   ├── StoreFull             the disk is full; nothing was written
    │   └── StoreReadOnly         the file or its folder cannot be written
    ├── Unfit                     the store cannot keep its guarantees; rejected at open
    │   ├── ForeignFile           the file is not a Holdfast store
    │   ├── SchemaMismatch        the schema is older or newer than this code
    │   └── TierNotKept           old library or server, network filesystem, synchronous_commit off …
    ├── InJob                     raised inside a job; its code may catch it
    │   ├── Refused               raised by a tool: the receiver certainly did nothing
    │   ├── CallFailed            a step or tool raised an error that it did not declare
    │   ├── Denied                a person denied it, or it expired
    │   ├── PlanFailed            a node of a plan failed, and the plan stopped
    │   ├── Unproven              the evidence of a checkpoint does not verify
    │   └── Withdrawn             the job was cancelled before this could be written or sent
    ├── NoResult                  the job has no result
    │   ├── JobCancelled          it was cancelled
    │   ├── JobFailed             it was ended as failed
    │   │   └── JobTimedOut       it was not over within its timeout; a CallFailed too, for a parent
    │   └── JobHeld               it waits for a person, who must decide before it goes on
    └── Broken                    a guarantee is violated; stop and keep the evidence
        └── StoreCorrupt          a damaged page, row or hash chain

    try:
        await store.journal.append(append)
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
    default_hint = (
        "Send JSON to the address that `holdfast serve` printed, and not from a page of another site."
    )


class Unauthorized(Misuse):
    code = "unauthorized"
    default_hint = "Set HOLDFAST_API_KEY to a valid key. Create one with `holdfast api-key create`."


class Forbidden(Misuse):
    code = "forbidden"
    default_hint = "Use a key whose role has this scope; docs/access.md has the table."


class InvalidSetting(Misuse):
    code = "invalid_setting"
    default_hint = "Use sqlite:///file.db, postgresql://user@host/database, or memory:."


# ── another writer was first ────────────────────────────────────────────────────────────────────────────


class Conflict(HoldfastError):
    code = "conflict"
    default_hint = "Read the current state and decide again."


class Fenced(Conflict):
    code = "fenced"
    default_hint = "Another worker holds this job now. Stop running it; this write was not applied."


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
    default_hint = "Another worker holds the item. Stop working on it; this write was not applied."


class CallUncertain(Conflict):
    """A call was begun and its outcome is not known; `.step_key` names it in the ledger."""

    code = "call_uncertain"
    default_hint = (
        "Check whether it happened, then decide: "
        "ledger.reconcile(tool_name, command, 'happened' or 'not_happened', why=…)."
    )

    def __init__(self, message: str, *, step_key: str = "", hint: str | None = None) -> None:
        super().__init__(message, hint=hint)
        self.step_key = step_key


class EvidenceFails(Conflict):
    code = "evidence_fails"
    default_hint = "Use an earlier checkpoint: get_last_verified_checkpoint(task_id)."


# ── the environment ───────────────────────────────────────────────────────────────────────────────


class Unavailable(HoldfastError):
    code = "unavailable"
    retry = True
    default_hint = "Wait a moment and send the same call again; it is safe to repeat."


class Busy(Unavailable):
    """A queue limit or a rate limit is reached; `.retry_after_s` is when to retry."""

    code = "busy"
    default_hint = "Send the same request again later; nothing was stored. More workers help."

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
    default_hint = "The job continues by itself. Ask again, or see what it waits for with `holdfast job ID`."


class StoreFull(Unavailable):
    code = "store_full"
    default_hint = "Free disk space; acknowledged data is safe, and work continues by itself."


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
    """`.by` is the person who denied it; empty when it expired."""

    code = "denied"
    default_hint = "The call was not made. Continue without it, or request it again with other arguments."

    def __init__(self, message: str, *, by: str = "", hint: str | None = None) -> None:
        super().__init__(message, hint=hint)
        self.by = by


class PlanFailed(InJob):
    """`.node` is the first node that failed, `.outcomes` how all of them came out, by name."""

    code = "plan_failed"
    default_hint = 'Use on_failure="skip_dependents" or "go_on" to get the outcomes instead of this error.'

    def __init__(
        self, message: str, *, node: str = "", outcomes: Any = None, hint: str | None = None
    ) -> None:
        super().__init__(message, hint=hint)
        self.node = node
        self.outcomes = {} if outcomes is None else outcomes


class Unproven(InJob):
    code = "unproven"
    default_hint = "Repeat the work that the evidence is about, then make the checkpoint."


class Withdrawn(InJob):
    code = "withdrawn"
    default_hint = "Nothing to do: the job was cancelled before this was written or sent."


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
    """Raised to callers that wait for the job, and to its parent from `hf.spawn`."""

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
