-- Inbox: batches wait, are claimed, and are settled by the turn that used them. A settled batch keeps its row.

CREATE TABLE inbox_batches (
    namespace {text} NOT NULL,
    session_id {text} NOT NULL,
    batch_id {text} NOT NULL,
    enqueue_seq {int} NOT NULL,
    source_key {text},
    delivery {text} NOT NULL CHECK (delivery IN ('earliest_safe_boundary', 'after_current_turn_commit')),
    slot {text} NOT NULL CHECK (slot IN ('exclusive', 'join')),
    merge_key {text} NOT NULL,
    available_at {int} NOT NULL,
    enqueued_at {int} NOT NULL,
    state {text} NOT NULL CHECK (state IN ('queued', 'completed', 'cancelled')),
    job_id {text},
    claim_id {text},
    claim_owner {text},
    claim_token {text},
    claim_boot {text},
    claimed_at {int},
    claim_expires_at {int},
    claim_fence {int} NOT NULL,
    settled_by {text},
    settled_at {int},
    PRIMARY KEY (namespace, session_id, batch_id),
    UNIQUE (namespace, session_id, enqueue_seq),
    UNIQUE (namespace, session_id, source_key),
    FOREIGN KEY (namespace, session_id) REFERENCES sessions (namespace, session_id),
    CHECK ((state = 'queued') = (settled_at IS NULL)),
    CHECK (claim_token IS NULL OR state = 'queued')
) {options};

CREATE INDEX batches_queued ON inbox_batches (namespace, session_id, enqueue_seq) WHERE state = 'queued';

CREATE TABLE inbox_items (
    namespace {text} NOT NULL,
    session_id {text} NOT NULL,
    batch_id {text} NOT NULL,
    item_index {int} NOT NULL,
    kind {text} NOT NULL,
    body {bytes},
    body_digest {bytes} NOT NULL,
    PRIMARY KEY (namespace, session_id, batch_id, item_index),
    FOREIGN KEY (namespace, session_id, batch_id) REFERENCES inbox_batches (namespace, session_id, batch_id)
) {options};

CREATE TABLE attachments (
    namespace {text} NOT NULL REFERENCES namespaces (namespace),
    attachment_id {text} NOT NULL,
    session_id {text} NOT NULL,
    uri {text} NOT NULL,
    intent_at {int} NOT NULL,
    committed_at {int},
    PRIMARY KEY (namespace, attachment_id)
) {options};
