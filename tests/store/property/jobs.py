"""Rules for jobs: submitting, claiming, writing, ruling, mail.

A machine remembers every hold it was ever granted, also those that others have taken over since, and every append it
ever sent. So it writes with fences, heads and tokens that are right, and with all the wrong ones a worker could have.
"""

from __future__ import annotations

import functools
from typing import Any, Final

import msgspec
from hypothesis import strategies as st
from hypothesis.stateful import initialize, precondition, rule

from holdfast.engine.recovery import RecoveryRules, decide_ruling
from holdfast.model.append import NOTHING, Append, Extras, Holder, Move, Timer, advance_holder, append_of
from holdfast.model.events import Event, StepFinished
from holdfast.model.hash_chain import Head
from holdfast.model.jobs import DEFAULT_NAMESPACE, JobDraft, JobFilter, JobHead
from holdfast.model.lease import Grant
from holdfast.model.ledger import CallRow, idempotency_key
from holdfast.model.mailbox import MailDraft
from holdfast.model.session import SessionNode, TurnCommit, stamp_commit
from holdfast.model.side_effects import CallStatus, Effect
from holdfast.model.states import MailKind, Status, WaitReason
from holdfast.model.time import SECOND
from holdfast.store.ports.journal import Ruling
from holdfast.store.ports.leases import ClaimRequest, HeldLease
from tests.store.property.three_stores import Refused
from tests.store.property.world import (
    BODIES,
    INPUTS,
    INSTANTS,
    NAMESPACES,
    ODD_NAME,
    OTHER,
    SESSIONS,
    World,
    newest,
    weighted,
)

KINDS: Final = ("k1", "k2")
QUEUES: Final = ("q1", "q2")
WORKERS: Final = ("w1", "w2")
TTLS: Final = st.sampled_from([30 * SECOND, 30 * SECOND, 5 * SECOND, 0])
STEPS: Final = ("1/a#1", "2/b#1")
NOBODY: Final = "nobody"
"""The id of no job."""

DRAFTS: Final = st.builds(
    JobDraft,
    kind=st.sampled_from(KINDS),
    input=INPUTS,
    namespace=NAMESPACES,
    queue=st.sampled_from([*QUEUES * 9, ODD_NAME]),
    priority=st.sampled_from([5] * 9 + [1, 4, 4, 6, 6, 10, 11]),
    request_key=st.sampled_from([None, None, None, "r1", "r2"]),
    session_id=st.sampled_from([None] * 4 + [SESSIONS[0], *SESSIONS]),
    ready_at=INSTANTS,
    job_id=st.sampled_from([None] * 6 + ["j1", "j2", "j3"]),
)

FILTERS: Final = st.builds(
    JobFilter,
    namespace=st.sampled_from([None, None, DEFAULT_NAMESPACE, OTHER]),
    status=st.sampled_from([None] * 6 + [*Status]),
    wait_reason=st.sampled_from([None] * 10 + [*WaitReason]),
    kind=st.sampled_from([None, None, *KINDS]),
    session_id=st.sampled_from([None, None, *SESSIONS]),
    parent_job_id=st.sampled_from([None, None, None, "j1"]),
    statuses=st.sampled_from([()] * 4) | st.lists(st.sampled_from(Status), max_size=3).map(tuple),
    queue=st.sampled_from([None, None, None, *QUEUES]),
    since=st.sampled_from([None] * 4) | INSTANTS,
    until=st.sampled_from([None] * 4) | INSTANTS,
    text=st.sampled_from([None] * 5 + ["J", "1", KINDS[0][:2].upper(), "%"]),
)

REASONS: Final = st.sampled_from([WaitReason.SIGNAL, WaitReason.TIMER, *WaitReason])
WAITS: Final = st.builds(Move, status=st.just(Status.WAITING), reason=REASONS, wake_at=st.none() | INSTANTS)
RELEASES: Final = st.builds(
    Move, status=st.just(Status.PENDING), ready_at=INSTANTS, failed=st.booleans(), anew=st.booleans()
)
ENDS: Final = st.builds(Move, status=st.sampled_from([Status.COMPLETED, Status.FAILED, Status.CANCELLED]))
ODD_MOVES: Final = st.builds(
    Move, status=st.sampled_from(Status), reason=st.none() | REASONS, wake_at=st.none() | INSTANTS
)
"""Mostly moves that no job can make: running on, waiting for nothing, over and due."""
MOVES: Final = weighted((3, WAITS), (2, RELEASES), (2, ENDS), (1, ODD_MOVES))


class JobRules(World):
    def __init__(self) -> None:
        super().__init__()
        self.drafts: list[JobDraft] = []
        self.tokens: list[str] = []
        self.holders: list[Holder] = []
        self.appends: list[Append] = []
        self.letters: list[MailDraft] = []

    # ── jobs ──────────────────────────────────────────────────────────────────────────────────────

    @initialize(
        inputs=st.lists(
            st.tuples(BODIES, INSTANTS, st.sampled_from([None, "j3", "j2", "j1"])), min_size=1, max_size=4
        ),
        session=st.sampled_from([None, SESSIONS[0]]),
        claimed=st.booleans(),
    )
    def begin(self, inputs: list[tuple[Any, int, str | None]], session: str | None, claimed: bool) -> None:
        """Most rules need jobs, some need them to stand in line, and many need a hold."""
        for body, ready_at, job_id in inputs:
            self.submit(
                JobDraft(
                    kind=KINDS[0],
                    input=body,
                    queue=QUEUES[0],
                    session_id=session,
                    ready_at=ready_at,
                    job_id=job_id,
                )
            )
        if claimed:
            self.claim_all(WORKERS[0])

    @rule(
        data=st.data(), draft=DRAFTS, how=st.sampled_from(["new", "new", "again", "changed", "child", "many"])
    )
    def submit_somehow(self, data: st.DataObject, draft: JobDraft, how: str) -> None:
        """A request: new, sent again, sent again with other content, as a child, or with others."""
        match how:
            case "new":
                self.submit(draft)
            case "again":
                self.submit(data.draw(newest(self.drafts)))
            case "changed":
                self.submit(msgspec.structs.replace(data.draw(newest(self.drafts)), input="changed"))
            case "child":
                self.submit(msgspec.structs.replace(draft, parent_job_id=data.draw(self.any_job())))
            case "many":
                drafts = [draft, *data.draw(st.lists(DRAFTS, max_size=2))]
                named = [msgspec.structs.replace(d, job_id=d.job_id or self.fresh("j")) for d in drafts]
                for submitted in self.told("jobs.submit_many", named) or []:
                    self.know(submitted.job_id)

    def submit(self, draft: JobDraft) -> None:
        self.drafts.append(draft)
        submitted = self.told("jobs.submit", draft)
        if submitted is not None:
            self.know(submitted.job_id)

    @rule(data=st.data(), which=FILTERS, limit=st.sampled_from([0, 1, 2, 100]))
    def read(self, data: st.DataObject, which: JobFilter, limit: int) -> None:
        job_id = data.draw(self.any_job())
        match data.draw(st.sampled_from(["list", "job", "journal", "request", "expired", "ledger", "mail"])):
            case "list":
                self.ask("jobs.tally", which)
                self.ask("jobs.names", which.namespace, limit=limit)
                page = self.ask("jobs.list", which, limit=limit)
                while page.next is not None:
                    page = self.ask("jobs.list", which, limit=limit, cursor=page.next)
            case "job":
                self.ask("jobs.get", job_id)
            case "journal":
                self.ask("journal.read", job_id, after=data.draw(st.integers(0, 3)), limit=limit or None)
            case "request":
                self.ask("jobs.find", data.draw(NAMESPACES), data.draw(st.sampled_from(["r1", "r2", "r3"])))
            case "expired":
                self.ask("leases.list_expired", limit)
                self.ask("leases.owners")
            case "ledger":
                self.ask("ledger.list", job_id, status=data.draw(st.none() | st.sampled_from(CallStatus)))
                self.ask("ledger.counts", data.draw(NAMESPACES))
            case "mail":
                self.ask("post.timers", job_id)
                self.ask("post.read", job_id, after=data.draw(st.integers(0, 2)))

    # ── leases ────────────────────────────────────────────────────────────────────────────────────

    @rule(
        data=st.data(),
        worker=st.sampled_from(WORKERS),
        queues=st.sampled_from([QUEUES, QUEUES, QUEUES[:1], QUEUES[1:], ()]),
        kinds=st.sampled_from([(), (), KINDS[:1], KINDS[1:]]),
        limit=st.integers(0, 3),
        ttl_us=TTLS,
        by_age=st.booleans(),
        suspect_at=st.sampled_from([None, None, 0, 1, 2]),
    )
    def claim(
        self,
        data: st.DataObject,
        worker: str,
        queues: tuple[str, ...],
        kinds: tuple[str, ...],
        limit: int,
        ttl_us: int,
        by_age: bool,
        suspect_at: int | None,
    ) -> None:
        token = data.draw(st.sampled_from([self.fresh("token")] * 18 + self.tokens[:-9:-1] + [ODD_NAME, ""]))
        handed = data.draw(st.sampled_from([None] * 9 + [_held(self.holders[-1]) if self.holders else None]))
        ask = ClaimRequest(
            worker=worker,
            token=token,
            queues=queues,
            kinds=kinds,
            limit=limit,
            ttl_us=ttl_us,
            by_age=by_age,
            suspect_at=suspect_at,
            handed=handed,
        )
        self.claimed(ask)

    def claim_all(self, worker: str) -> None:
        self.claimed(ClaimRequest(worker=worker, token=self.fresh("token"), queues=QUEUES, limit=100))

    def claimed(self, ask: ClaimRequest) -> None:
        self.tokens.append(ask.token)
        for grant in self.told("leases.claim", ask) or []:
            self.touched_jobs.add(grant.job_id)
            self.holders.append(_holder(grant))
            if grant.takeover:
                self.trio.seen["takeover"] += 1

    @rule(limit=st.sampled_from([0, 1, 2, 100]), takeovers_max=st.integers(1, 3))
    def sweep(self, limit: int, takeovers_max: int) -> None:
        """What is owed to jobs whose worker is gone, a few at a time."""
        self.touched_jobs.update(self.jobs)
        rules = RecoveryRules(takeovers_max=takeovers_max, failed_attempts_max=2)
        held = self.ask("journal.hold_expired", functools.partial(decide_ruling, rules), limit=limit)
        self.trio.seen["swept"] += len(held)

    @rule(
        data=st.data(),
        worker=st.sampled_from(WORKERS),
        ttl_us=TTLS,
        dead=st.sampled_from([False, False, True]),
    )
    def renew_or_die(self, data: st.DataObject, worker: str, ttl_us: int, dead: bool) -> None:
        if dead or not self.holders:
            self.touched_jobs.update(self.jobs)
            self.ask("leases.expire", worker)
            return
        chosen = data.draw(st.lists(newest(self.holders), min_size=1, max_size=3))
        held = [HeldLease(h.job_id, h.fence, h.lease_token) for h in chosen]
        self.touched_jobs.update(lease.job_id for lease in held)
        self.ask("leases.renew", held, ttl_us)

    # ── appends ───────────────────────────────────────────────────────────────────────────────────

    @rule(data=st.data())
    def append(self, data: st.DataObject) -> None:
        match data.draw(st.sampled_from(["events", "move", "extras", "extras", "end", "sleep"])):
            case "events":
                self.write(data, None)
            case "move":
                self.write(data, data.draw(MOVES))
            case "extras":
                self.write(data, data.draw(st.none() | MOVES), with_extras=True)
            case "end":
                self.write(data, data.draw(ENDS))
            case "sleep":
                self.write(data, data.draw(WAITS))
                self.send(data)

    # Hypothesis leaves out about half of the rules in each example, and writing is what most others wait for.

    @rule(data=st.data())
    def append_more(self, data: st.DataObject) -> None:
        self.append(data)

    @rule(data=st.data())
    def append_much(self, data: st.DataObject) -> None:
        self.append(data)

    def write(self, data: st.DataObject, move: Move | None, *, with_extras: bool = False) -> None:
        """The append is sent. Sometimes its reply is lost, and the holder goes on without having seen its effect."""
        if not any(map(self.holds, self.holders)):
            self.claim_all(WORKERS[1])
        if not self.holders:
            return
        place = data.draw(self.any_holder())
        holder = self.forged(data, self.holders[place])
        append = self.built(data, holder, move, self.extras(data, holder) if with_extras else NOTHING)
        self.appends.append(append)
        answer = self.ask("journal.append", append)
        self.noticed(append)
        if isinstance(answer, Head) and data.draw(st.integers(0, 7)) < 7:
            self.holders[place] = advance_holder(holder, append)

    @precondition(lambda self: self.appends)
    @rule(data=st.data())
    def append_again(self, data: st.DataObject) -> None:
        append = data.draw(newest(self.appends))
        self.ask("journal.append", append)
        self.noticed(append)

    @precondition(lambda self: self.holders)
    @rule(data=st.data())
    def append_many(self, data: st.DataObject) -> None:
        """Different jobs in one call, one of them perhaps with more than events. Nothing in one of the appends may
        matter to another: in which order they are done is the store's business."""
        places = data.draw(st.lists(self.any_holder(), min_size=1, max_size=4, unique=True))
        appends = []
        for nth, place in enumerate(places):
            extras = self.own_extras(data, self.holders[place]) if nth == 0 else NOTHING
            appends.append(self.built(data, self.holders[place], data.draw(st.none() | MOVES), extras))
        answers = self.ask("journal.append_many", appends)
        if isinstance(answers, Refused):
            assert len({append.job_id for append in appends}) < len(appends), "only a job that is named twice"
            return
        for place, append, answer in zip(places, appends, answers, strict=True):
            self.trio.seen[f"append_many {answer.kind if isinstance(answer, Refused) else 'Head'}"] += 1
            self.noticed(append)
            if isinstance(answer, Head):
                self.holders[place] = advance_holder(self.holders[place], append)

    @rule(data=st.data(), move=st.none() | MOVES)
    def hold(self, data: st.DataObject, move: Move | None) -> None:
        job_id = data.draw(self.any_job())
        extras = NOTHING
        if job_id != NOBODY:
            head = self.head(job_id)
            me = Holder(job_id, head.namespace, head.fence + 1, "", head.head)
            extras = self.extras(data, me) if data.draw(st.booleans()) else NOTHING
        ruling = None if move is None else Ruling((_step("ruled"),), move, extras)
        self.ask("journal.hold", job_id, lambda _: ruling)
        self.touched_jobs.update({job_id} & set(self.jobs))
        self.noticed_extras(job_id, extras)

    def built(self, data: st.DataObject, holder: Holder, move: Move | None, extras: Extras) -> Append:
        """An append of one or two events by this holder, with the right or the wrong idea of its mail."""
        mail_seq = self.head(holder.job_id).mail_seq
        return append_of(
            holder,
            [_step(name, data.draw(BODIES)) for name in ("x", "y")[: data.draw(st.integers(1, 2))]],
            at=self.now,
            mail_seen=data.draw(st.sampled_from([None, None, mail_seq, mail_seq, mail_seq + 1, 0])),
            move=move,
            progress=data.draw(st.booleans()),
            extras=extras,
        )

    def forged(self, data: st.DataObject, holder: Holder) -> Holder:
        """The holder, sometimes with one thing wrong that no honest one would have wrong."""
        head = self.head(holder.job_id)
        match data.draw(st.sampled_from(["honest"] * 9 + ["hash", "token", "fence"])):
            case "hash":
                return msgspec.structs.replace(holder, head=Head(head.head_seq, bytes(32)))
            case "token":
                return msgspec.structs.replace(holder, fence=head.fence, lease_token="", head=head.head)
            case "fence":
                return msgspec.structs.replace(holder, fence=head.fence - 1, lease_token=head.lease_token)
        return holder

    def noticed(self, append: Append) -> None:
        self.touched_jobs.add(append.job_id)
        self.noticed_extras(append.job_id, append.extras)

    def noticed_extras(self, job_id: str, extras: Extras) -> None:
        """What was written beside the events is looked at, too, if it was written."""
        for child in extras.children:
            if child.job_id is not None and self.exists(child.job_id):
                self.know(child.job_id)
        self.touched_jobs.update(letter.job_id for letter in extras.letters if self.exists(letter.job_id))
        if extras.turn is not None:
            self.touched_sessions.add((self.head(job_id).namespace, extras.turn.session_id))
        if extras.calls:
            self.ask("ledger.list", job_id)
            self.ask("ledger.find_by_key", extras.calls[0].idempotency_key)
        if extras.timers:
            self.ask("post.timers", job_id)

    # ── beside the events ─────────────────────────────────────────────────────────────────────────

    def extras(self, data: st.DataObject, holder: Holder) -> Extras:
        """A little of everything."""
        own = self.own_extras(data, holder)
        child = msgspec.structs.replace(
            data.draw(DRAFTS), parent_job_id=data.draw(st.sampled_from([holder.job_id] * 4 + [None, NOBODY]))
        )
        letter = self.letter(data)
        return msgspec.structs.replace(
            own,
            children=data.draw(st.sampled_from([(), (child,)])),
            letters=data.draw(st.sampled_from([(), (letter,)])),
        )

    def own_extras(self, data: st.DataObject, holder: Holder) -> Extras:
        """What touches no other job."""
        call = self.call(data, holder)
        timers = data.draw(
            st.lists(st.builds(Timer, st.sampled_from(STEPS), st.none() | INSTANTS), max_size=2)
        )
        return Extras(
            calls=data.draw(st.sampled_from([(), (call,), (call,)])),
            timers=tuple(timers),
            turn=data.draw(st.sampled_from([None, None, self.turn(data)])),
        )

    def call(self, data: st.DataObject, holder: Holder) -> CallRow:
        """A row of the ledger, right or wrong: any status after any, keys and ids that are taken."""
        step_key = data.draw(st.sampled_from(STEPS))
        generation = data.draw(st.integers(0, 1))
        job_id = data.draw(st.sampled_from([holder.job_id] * 9 + [self.jobs[0]]))
        key = idempotency_key(holder.namespace, job_id, step_key, generation)
        name = f"call:{job_id}:{step_key}:{generation}"
        return CallRow(
            tool_call_id=data.draw(st.sampled_from([name] * 9 + ["call"])),
            job_id=job_id,
            step_key=step_key,
            generation=generation,
            tool_name=data.draw(st.sampled_from(["mailer", "mailer", "printer"])),
            raw_tool_name="Mailer.Send",
            side_effect_class=Effect.IDEMPOTENT,
            status=data.draw(st.sampled_from([CallStatus.PREPARED, CallStatus.PREPARED, *CallStatus])),
            idempotency_key=data.draw(st.sampled_from([key] * 9 + ["key"])),
            args_digest=data.draw(st.sampled_from(["args"] * 5 + ["other args"])),
            attempt=data.draw(st.integers(1, 2)),
            fence=holder.fence,
            intent_seq=holder.head.seq + 1,
            result_seq=data.draw(st.none() | st.just(holder.head.seq + 1)),
            prepared_at=self.now,
        )

    def turn(self, data: st.DataObject) -> TurnCommit:
        commit = TurnCommit(
            session_id=data.draw(st.sampled_from(SESSIONS)),
            nodes=(SessionNode(node_id=data.draw(st.sampled_from(["n1", "n2"])), body=data.draw(BODIES)),),
            expected_revision=data.draw(st.sampled_from([None, None, 0, 1])),
        )
        return data.draw(st.sampled_from([commit, stamp_commit(commit, "turn1")]))

    # ── mail ──────────────────────────────────────────────────────────────────────────────────────

    @rule(data=st.data())
    def send(self, data: st.DataObject) -> None:
        letter = data.draw(st.sampled_from([self.letter(data)] * 4 + self.letters[:-3:-1]))
        self.letters.append(letter)
        sent = self.told("post.send", letter)
        if sent is not None:
            self.touched_jobs.add(letter.job_id)
            self.trio.seen["woken by mail"] += sent.woke
            self.ask("post.read", letter.job_id, after=sent.mail_seq - 1)

    def letter(self, data: st.DataObject) -> MailDraft:
        return MailDraft(
            job_id=data.draw(self.any_reader()),
            kind=data.draw(st.sampled_from([MailKind.SIGNAL, MailKind.RESUME, *MailKind])),
            operation_id=data.draw(st.sampled_from([self.fresh("o")] * 9 + ["o"] * 3 + [ODD_NAME])),
            body=data.draw(INPUTS),
        )

    # ── choosing ──────────────────────────────────────────────────────────────────────────────────

    def any_job(self) -> st.SearchStrategy[str]:
        return newest([NOBODY, *self.jobs * 5])

    def any_reader(self) -> st.SearchStrategy[str]:
        """A job to write to: mostly one that waits to be written to."""
        waiting = [job_id for job_id in self.jobs if self.head(job_id).status is Status.WAITING]
        alone = [job_id for job_id in waiting if self.head(job_id).wait_reason is not WaitReason.JOINED]
        return newest([NOBODY, *waiting, *self.jobs * 2, *alone * 9])

    def any_holder(self) -> st.SearchStrategy[int]:
        """The place of a hold: mostly one that holds, sometimes one that was given back or taken over."""
        holding = [place for place, holder in enumerate(self.holders) if self.holds(holder)]
        return newest([*range(len(self.holders)), *holding * (2 + len(self.holders))])

    def holds(self, holder: Holder) -> bool:
        head = self.head(holder.job_id)
        return (head.fence, head.lease_token) == (holder.fence, holder.lease_token)

    def head(self, job_id: str) -> JobHead:
        head: JobHead = self.trio.peek(lambda store: store.jobs.head(job_id))
        return head

    def exists(self, job_id: str) -> bool:
        jobs = self.trio.peek(lambda store: store.jobs.list(JobFilter(), limit=1000))
        return any(record.job_id == job_id for record in jobs)


def _held(holder: Holder) -> HeldLease:
    return HeldLease(holder.job_id, holder.fence, holder.lease_token)


def _holder(grant: Grant) -> Holder:
    return Holder(
        grant.job_id,
        grant.namespace,
        grant.fence,
        grant.lease_token,
        Head(grant.head_seq, grant.head_hash),
    )


def _step(name: str, result: object = None) -> Event:
    return StepFinished(step_key=f"1/{name}#1", args_digest="", result=result)
