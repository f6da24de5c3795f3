"""Rules for sessions: the inbox, turns, nodes, attachments, blobs.

A machine remembers every claim it was ever given and every turn it ever committed, and comes back with old ones.
"""

from __future__ import annotations

import hashlib
from typing import Final

import msgspec
from hypothesis import strategies as st
from hypothesis.stateful import initialize, precondition, rule

from holdfast.model.inbox import (
    BY_PAYLOAD,
    NEVER,
    BatchDraft,
    Boundary,
    Claim,
    Completion,
    Delivery,
    InboxBatch,
    ItemDraft,
    SlotPolicy,
    group,
)
from holdfast.model.jobs import DEFAULT_NAMESPACE
from holdfast.model.session import (
    Frame,
    SessionCheckpoint,
    SessionMeta,
    SessionNode,
    TurnCommit,
    Usage,
    stamp_commit,
)
from holdfast.model.time import SECOND
from holdfast.store.ports.attachments import AttachmentIntent
from holdfast.store.ports.sessions import SessionScope
from tests.store.property.world import (
    BODIES,
    HANDLES,
    INPUTS,
    INSTANTS,
    LARGE,
    NAMESPACES,
    ODD_NAME,
    SESSIONS,
    World,
    newest,
    weighted,
)

NODES: Final = ("n1", "n2", "n3", "n4")
FRAMES: Final = ("f1", "f2")
ATTACHMENTS: Final = ("a1", "a2", "a3")
TTLS: Final = st.sampled_from([30 * SECOND, 30 * SECOND, 5 * SECOND, 0])
BLOBS: Final = {"large": LARGE.encode(), "small": b"blob"}
STATES: Final = st.sampled_from([None, None, "small", "large"]).map(
    lambda size: None if size is None else BLOBS[size]
)

ITEMS: Final = st.lists(st.builds(ItemDraft, st.just("turn_input"), INPUTS), min_size=1, max_size=2)
DRAFTS: Final = st.builds(
    BatchDraft,
    session_id=st.sampled_from(SESSIONS),
    items=weighted((19, ITEMS.map(tuple)), (1, st.just(()))),
    delivery=st.sampled_from([*Delivery, Delivery.EARLIEST_SAFE_BOUNDARY]),
    slot=st.sampled_from([*SlotPolicy, SlotPolicy.JOIN]),
    merge_key=st.sampled_from([NEVER, NEVER, BY_PAYLOAD, group("a"), group("b")]),
    source_key=st.sampled_from([None] * 18 + ["x1", "x2"] * 6 + [ODD_NAME]),
    available_at=INSTANTS,
    batch_id=st.sampled_from([None] * 18 + ["b1", "b2"] * 6 + ["", ODD_NAME]),
    job_id=st.sampled_from([None, "j1"]),
)

TURNS: Final = st.builds(
    TurnCommit,
    session_id=st.sampled_from(SESSIONS),
    nodes=st.lists(
        st.builds(
            SessionNode,
            node_id=st.sampled_from(NODES),
            parent_node_id=st.sampled_from([None, *NODES]),
            body=BODIES,
            frame_id=st.sampled_from([None, *FRAMES]),
            at=INSTANTS,
        ),
        max_size=3,
        unique_by=lambda node: node.node_id,
    ).map(tuple),
    leaf_node_id=st.sampled_from([None, None, None, *NODES, ""]),
    replace=st.sampled_from([False, False, False, True]),
    frames=st.lists(
        st.builds(
            Frame,
            frame_id=st.sampled_from(FRAMES),
            previous_frame_id=st.sampled_from([None, *FRAMES]),
            assignment=BODIES,
            snapshot=STATES,
        ),
        max_size=2,
    ).map(tuple),
    frame_id=st.sampled_from([None, None, *FRAMES]),
    checkpoint=st.builds(SessionCheckpoint, turn_index=st.integers(0, 2), options=BODIES, tool_state=STATES),
    usage=st.lists(
        st.builds(
            Usage,
            source=st.sampled_from(["agent", "tool"]),
            model=st.sampled_from(["m1", "m2"]),
            input_tokens=st.integers(0, 3),
            output_tokens=st.integers(0, 3),
        ),
        max_size=2,
    ).map(tuple),
    attachments=st.lists(st.sampled_from(ATTACHMENTS), max_size=2).map(tuple),
)


def _digest(body: bytes) -> str:
    return hashlib.sha256(body).hexdigest()


class SessionRules(World):
    def __init__(self) -> None:
        super().__init__()
        self.batches: list[BatchDraft] = []
        self.places: list[tuple[str, str]] = []
        """Namespace and session of every batch and turn."""
        self.claims: list[tuple[str, Claim]] = []
        self.turns: list[tuple[str, TurnCommit]] = []

    # ── the inbox ─────────────────────────────────────────────────────────────────────────────────

    @initialize(drafts=st.lists(DRAFTS, min_size=1, max_size=3))
    def begin_sessions(self, drafts: list[BatchDraft]) -> None:
        """Most rules need something in a line."""
        for draft in drafts:
            self.enqueue(draft, DEFAULT_NAMESPACE)

    @rule(
        data=st.data(),
        draft=DRAFTS,
        namespace=NAMESPACES,
        how=st.sampled_from(["new", "new", "again", "changed"]),
    )
    def enqueue_somehow(self, data: st.DataObject, draft: BatchDraft, namespace: str, how: str) -> None:
        """A batch: new, sent again, or sent again with other content."""
        if how != "new":
            draft = data.draw(newest(self.batches))
        if how == "changed":
            draft = msgspec.structs.replace(draft, items=(ItemDraft("turn_input", "changed"),))
        self.enqueue(draft, namespace)

    def enqueue(self, draft: BatchDraft, namespace: str) -> None:
        self.batches.append(draft)
        self.places.append((namespace, draft.session_id))
        self.touched_queues.add((namespace, draft.session_id))
        self.ask("inbox.enqueue", draft, namespace=namespace)

    @rule(
        data=st.data(),
        boundary=st.sampled_from([*Boundary, Boundary.IDLE]),
        ttl_us=TTLS,
        max_batches=st.sampled_from([10, 10, 10, 2, 1, 0]),
    )
    def claim_inputs(self, data: st.DataObject, boundary: Boundary, ttl_us: int, max_batches: int) -> None:
        namespace, session = data.draw(self.any_place())
        if not self.queue(namespace, session):
            draft = data.draw(DRAFTS)
            self.enqueue(msgspec.structs.replace(draft, session_id=session, available_at=0), namespace)
        token = self.inbox_token(data)
        claim = self.told(
            "inbox.claim",
            session,
            "owner",
            boundary,
            ttl_us=ttl_us,
            max_batches=max_batches,
            token=token,
            namespace=namespace,
        )
        self.claimed_inputs(namespace, session, claim)

    @rule(data=st.data(), boundary=st.sampled_from([*Boundary, Boundary.IDLE]), ttl_us=TTLS)
    def claim_exact(self, data: st.DataObject, boundary: Boundary, ttl_us: int) -> None:
        namespace, session = data.draw(self.any_place())
        queued = [batch.batch_id for batch in self.queue(namespace, session)]
        first = st.integers(1, 3).map(lambda count: queued[:count])
        wanted = data.draw(first | st.lists(st.sampled_from([*queued, "nothing"]), max_size=3))
        claim = self.told(
            "inbox.claim_exact",
            session,
            "other owner",
            boundary,
            wanted,
            ttl_us=ttl_us,
            token=self.inbox_token(data),
            namespace=namespace,
        )
        self.claimed_inputs(namespace, session, claim)

    def claimed_inputs(self, namespace: str, session: str, claim: Claim | None) -> None:
        self.trio.seen["inbox.claim None" if claim is None else "inbox.claim Claim"] += 1
        if claim is not None:
            self.claims.append((namespace, claim))
            self.touched_queues.add((namespace, session))

    @precondition(lambda self: self.claims)
    @rule(data=st.data(), ttl_us=TTLS, forged=st.sampled_from([False] * 9 + [True]))
    def renew_claim(self, data: st.DataObject, ttl_us: int, forged: bool) -> None:
        namespace, claim = data.draw(newest(self.claims))
        if forged:
            claim = msgspec.structs.replace(claim, token="another")
        renewed = self.told("inbox.renew", claim, ttl_us, namespace=namespace)
        if renewed is not None:
            self.claims.append((namespace, renewed))

    @rule(data=st.data(), what=st.sampled_from(["claim", "batch"]))
    def give_up(self, data: st.DataObject, what: str) -> None:
        """A claim is abandoned, or a batch is cancelled."""
        namespace, session = data.draw(self.any_place())
        if what == "claim" and self.claims:
            namespace, claim = data.draw(newest(self.claims))
            self.ask("inbox.abandon", claim, namespace=namespace)
            self.ask("inbox.list_pending", claim.session_id, namespace=namespace)
        else:
            queued = [batch.batch_id for batch in self.queue(namespace, session)]
            self.ask(
                "inbox.cancel", session, data.draw(st.sampled_from([*queued, "b1"])), namespace=namespace
            )
            self.touched_queues.add((namespace, session))

    def inbox_token(self, data: st.DataObject) -> str:
        old = [claim.token for _, claim in self.claims[:-3:-1]]
        return data.draw(st.sampled_from([self.fresh("claim")] * 18 + old * 6 + [ODD_NAME, ""]))

    def any_place(self) -> st.SearchStrategy[tuple[str, str]]:
        """A namespace and a session, mostly one where something happened."""
        return newest([(DEFAULT_NAMESPACE, SESSIONS[1]), *self.places * 3])

    def queue(self, namespace: str, session: str) -> list[InboxBatch]:
        queued: list[InboxBatch] = self.trio.peek(
            lambda store: store.inbox.list(session, namespace=namespace)
        )
        return queued

    # ── turns ─────────────────────────────────────────────────────────────────────────────────────

    @rule(data=st.data(), commit=TURNS, namespace=NAMESPACES)
    def commit(self, data: st.DataObject, commit: TurnCommit, namespace: str) -> None:
        """A turn, often stamped, built on the right revision or not, using inputs that are its own or not."""
        revision = self.revision(namespace, commit.session_id)
        completions = st.lists(self.completions(commit.session_id), min_size=1, max_size=2).map(tuple)
        commit = msgspec.structs.replace(
            commit,
            expected_revision=data.draw(st.sampled_from([None, None, revision, revision, revision + 1, 0])),
            completes=data.draw(weighted((2, st.just(())), (1, completions))),
        )
        turn_id = data.draw(st.sampled_from([None, None, "turn1", "turn2", self.fresh("turn")]))
        self.committed(data, namespace, commit if turn_id is None else stamp_commit(commit, turn_id))

    @rule(data=st.data(), commit=TURNS)
    def commit_inputs(self, data: st.DataObject, commit: TurnCommit) -> None:
        """A turn that uses what was claimed for it, as turns do."""
        self.claim_inputs(data, Boundary.IDLE, 30 * SECOND, 10)
        if not self.claims:
            return
        namespace, claim = self.claims[-1]
        commit = msgspec.structs.replace(commit, session_id=claim.session_id, completes=(claim.completion(),))
        self.committed(data, namespace, stamp_commit(commit, self.fresh("turn")))

    # Hypothesis leaves out about half of the rules in each example, and turns are what this is about.

    @rule(data=st.data(), commit=TURNS)
    def commit_more_inputs(self, data: st.DataObject, commit: TurnCommit) -> None:
        self.commit_inputs(data, commit)

    @rule(data=st.data(), commit=TURNS, namespace=NAMESPACES)
    def commit_more(self, data: st.DataObject, commit: TurnCommit, namespace: str) -> None:
        self.commit(data, commit, namespace)

    @precondition(lambda self: self.turns)
    @rule(data=st.data(), changed=st.sampled_from([False, False, True]))
    def commit_again(self, data: st.DataObject, changed: bool) -> None:
        namespace, commit = data.draw(newest(self.turns))
        if changed:
            commit = msgspec.structs.replace(commit, usage=(Usage(source="agent", model="m3"),))
            commit = commit if commit.stamp is None else stamp_commit(commit, commit.stamp.turn_id)
        self.committed(data, namespace, commit)

    def committed(self, data: st.DataObject, namespace: str, commit: TurnCommit) -> None:
        self.turns.append((namespace, commit))
        self.places.append((namespace, commit.session_id))
        handle = data.draw(st.sampled_from([None, None, *HANDLES]))
        result = self.told("sessions.commit", commit, handle=handle, namespace=namespace)
        if result is None:
            return
        self.trio.seen["sessions.commit replayed"] += result.replayed
        self.touched_sessions.add((namespace, commit.session_id))
        if commit.completes:
            self.touched_queues.add((namespace, commit.session_id))

    def completions(self, session: str) -> st.SearchStrategy[Completion]:
        """What shows a hold on inputs of this session: all of a claim, a part of it, or nothing real."""
        invented = Completion("b1.1", "token", ("b1",))
        held = [claim.completion() for _, claim in self.claims if claim.session_id == session]
        parts = [msgspec.structs.replace(whole, batch_ids=whole.batch_ids[:1]) for whole in held]
        return newest([invented, *parts, *held, *held])

    def revision(self, namespace: str, session: str) -> int:
        view = self.trio.peek(lambda store: store.sessions.load(session, namespace=namespace))
        return 0 if view is None else int(view.revision)

    # ── what is in a session ──────────────────────────────────────────────────────────────────────

    @rule(
        data=st.data(),
        what=st.sampled_from(["tombstone", "vacuum", "meta"]),
        nodes=st.lists(st.sampled_from([*NODES, "n9"]), max_size=3),
        relation=INPUTS,
        handle=st.sampled_from([None, *HANDLES]),
    )
    def change_session(
        self, data: st.DataObject, what: str, nodes: list[str], relation: object, handle: str | None
    ) -> None:
        namespace, session = data.draw(self.any_place())
        match what:
            case "tombstone":
                self.ask("sessions.tombstone", session, nodes, namespace=namespace)
            case "vacuum":
                self.ask("sessions.vacuum", session, namespace=namespace)
            case "meta":
                session = data.draw(st.sampled_from([session] * 9 + [""]))
                meta = SessionMeta(session_id=session, relation=relation)
                self.ask("sessions.save_meta", meta, handle=handle, namespace=namespace)
        self.touched_sessions.add((namespace, session))

    @rule(data=st.data())
    def read_session(self, data: st.DataObject) -> None:
        namespace, session = data.draw(self.any_place())
        match data.draw(st.sampled_from(["path", "path", "node", "meta", "handle", "pending"])):
            case "path":
                scope = SessionScope(
                    active_path=True, leaf_node_id=data.draw(st.sampled_from([None, *NODES, ""]))
                )
                self.ask("sessions.load", session, scope, namespace=namespace)
            case "node":
                self.ask("sessions.node", session, data.draw(st.sampled_from(NODES)), namespace=namespace)
            case "meta":
                self.ask("sessions.meta", session, namespace=namespace)
            case "handle":
                self.ask(
                    "sessions.find_bound_session", data.draw(st.sampled_from(HANDLES)), namespace=namespace
                )
            case "pending":
                self.ask("inbox.list_pending", session, namespace=namespace)

    # ── attachments and blobs ─────────────────────────────────────────────────────────────────────

    @rule(
        namespace=NAMESPACES,
        intent=st.builds(
            AttachmentIntent,
            attachment_id=st.sampled_from(ATTACHMENTS),
            session_id=st.sampled_from(SESSIONS),
            uri=st.sampled_from(["file:one", "sha256:nonsense", f"sha256:{_digest(BLOBS['large'])}"]),
            intent_at=INSTANTS,
            committed_at=st.sampled_from([None, None, 1]),
        ),
        then=st.sampled_from([None, "list", "stamp", "forget"]),
        before=INSTANTS,
    )
    def attach(self, namespace: str, intent: AttachmentIntent, then: str | None, before: int) -> None:
        self.ask("attachments.record_intent", intent, namespace=namespace)
        match then:
            case "list":
                self.ask("attachments.list_uncommitted", before, namespace=namespace)
            case "stamp":
                self.ask("attachments.commit_refs", "s1", [ATTACHMENTS[0], "a9"], namespace=namespace)
            case "forget":
                self.ask("attachments.forget", ATTACHMENTS[1], namespace=namespace)

    @rule(
        namespace=NAMESPACES,
        size=st.sampled_from(sorted(BLOBS)),
        then=st.sampled_from(["put", "get", "collect", "collect"]),
        older_than_us=st.sampled_from([0, 0, 5 * SECOND, 60 * SECOND]),
    )
    def use_blobs(self, namespace: str, size: str, then: str, older_than_us: int) -> None:
        match then:
            case "put":
                self.ask("blobs.put", BLOBS[size], namespace=namespace)
            case "get":
                self.ask("blobs.has", _digest(BLOBS[size]), namespace=namespace)
                self.ask("blobs.get", _digest(BLOBS[size]), namespace=namespace)
            case "collect":
                self.ask("sessions.gc", older_than_us=older_than_us, namespace=namespace)
