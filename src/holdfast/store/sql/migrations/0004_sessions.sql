-- Sessions: a head, a graph of nodes, frames, usage, and the stamp of every turn.

CREATE TABLE sessions (
    namespace {text} NOT NULL REFERENCES namespaces (namespace),
    session_id {text} NOT NULL,
    revision {int} NOT NULL,
    leaf_node_id {text},
    frame_id {text},
    checkpoint {bytes},
    checkpoint_digest {bytes},
    -- The checkpoint's small states, so that a turn that changes them leaves no garbage behind.
    states {bytes},
    node_seq {int} NOT NULL,
    enqueue_seq {int} NOT NULL,
    meta {bytes},
    created_at {int} NOT NULL,
    PRIMARY KEY (namespace, session_id),
    CHECK ((revision = 0) = (checkpoint IS NULL))
) {options};

CREATE TABLE session_handles (
    namespace {text} NOT NULL,
    handle {text} NOT NULL,
    session_id {text} NOT NULL,
    PRIMARY KEY (namespace, handle),
    FOREIGN KEY (namespace, session_id) REFERENCES sessions (namespace, session_id)
) {options};

CREATE TABLE session_nodes (
    namespace {text} NOT NULL,
    session_id {text} NOT NULL,
    node_id {text} NOT NULL,
    node_seq {int} NOT NULL,
    parent_node_id {text},
    frame_id {text},
    caused_by {text},
    at {int} NOT NULL,
    body {bytes},
    body_digest {bytes} NOT NULL,
    tombstoned {int} NOT NULL CHECK (tombstoned IN (0, 1)),
    PRIMARY KEY (namespace, session_id, node_id),
    FOREIGN KEY (namespace, session_id) REFERENCES sessions (namespace, session_id)
) {options};

CREATE TABLE session_frames (
    namespace {text} NOT NULL,
    session_id {text} NOT NULL,
    frame_id {text} NOT NULL,
    frame_seq {int} NOT NULL,
    previous_frame_id {text},
    status {text} NOT NULL,
    reason {text} NOT NULL,
    caused_by {text},
    created_at {int} NOT NULL,
    assignment {bytes} NOT NULL,
    snapshot {bytes},
    snapshot_digest {bytes},
    PRIMARY KEY (namespace, session_id, frame_id),
    FOREIGN KEY (namespace, session_id) REFERENCES sessions (namespace, session_id)
) {options};

CREATE TABLE session_usage (
    namespace {text} NOT NULL,
    session_id {text} NOT NULL,
    source {text} NOT NULL,
    model {text} NOT NULL,
    first_revision {int} NOT NULL,
    position {int} NOT NULL,
    input_tokens {int} NOT NULL,
    output_tokens {int} NOT NULL,
    cached_input_tokens {int} NOT NULL,
    reasoning_tokens {int} NOT NULL,
    PRIMARY KEY (namespace, session_id, source, model),
    FOREIGN KEY (namespace, session_id) REFERENCES sessions (namespace, session_id)
) {options};

CREATE TABLE turns (
    namespace {text} NOT NULL,
    session_id {text} NOT NULL,
    turn_id {text} NOT NULL,
    turn_hash {text} NOT NULL,
    revision {int} NOT NULL,
    checkpoint_digest {bytes} NOT NULL,
    job_id {text},
    committed_at {int} NOT NULL,
    PRIMARY KEY (namespace, session_id, turn_id),
    FOREIGN KEY (namespace, session_id) REFERENCES sessions (namespace, session_id)
) {options};
