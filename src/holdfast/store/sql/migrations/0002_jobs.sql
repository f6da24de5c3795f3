-- Jobs: who asked, the narrow head that every append moves, the journal, mail and timers.

CREATE TABLE jobs (
    job_id {text} PRIMARY KEY,
    namespace {text} NOT NULL REFERENCES namespaces (namespace),
    kind {text} NOT NULL,
    queue {text} NOT NULL,
    priority {int} NOT NULL CHECK (priority BETWEEN 1 AND 10),
    request_key {text},
    request_digest {bytes} NOT NULL,
    parent_job_id {text},
    parent_step_key {text},
    session_id {text},
    created_at {int} NOT NULL,
    UNIQUE (namespace, job_id),
    UNIQUE (namespace, request_key),
    -- A child lives in its parent's namespace, or the database refuses it.
    FOREIGN KEY (namespace, parent_job_id) REFERENCES jobs (namespace, job_id) DEFERRABLE INITIALLY IMMEDIATE
) {options};

CREATE INDEX jobs_by_parent ON jobs (parent_job_id, job_id) WHERE parent_job_id IS NOT NULL;
CREATE INDEX jobs_by_session ON jobs (namespace, session_id, job_id) WHERE session_id IS NOT NULL;

CREATE TABLE job_heads (
    job_id {text} PRIMARY KEY REFERENCES jobs (job_id),
    namespace {text} NOT NULL,
    queue {text} NOT NULL,
    kind {text} NOT NULL,
    priority {int} NOT NULL,
    status {text} NOT NULL CHECK (status IN ('pending', 'running', 'waiting', 'completed', 'failed', 'cancelled')),
    wait_reason {text},
    wake_at {int},
    ready_at {int} NOT NULL,
    session_id {text},
    session_slot {text} CHECK (session_slot IN ('live', 'behind')),
    head_seq {int} NOT NULL CHECK (head_seq >= 1),
    head_hash {bytes} NOT NULL,
    fence {int} NOT NULL,
    lease_token {text} NOT NULL,
    lease_owner {text} NOT NULL,
    lease_boot {text} NOT NULL,
    lease_expires_at {int} NOT NULL,
    mail_seq {int} NOT NULL,
    attempts {int} NOT NULL,
    takeovers {int} NOT NULL,
    CHECK ((status = 'waiting') = (wait_reason IS NOT NULL)),
    CHECK ((status = 'running') = (lease_token <> '')),
    CHECK (wake_at IS NULL OR status = 'waiting')
) {narrow};

-- In the order of claims, so that a claim reads what it takes and stops.
CREATE INDEX heads_by_priority ON job_heads (priority DESC, ready_at, job_id) WHERE status = 'pending';
CREATE INDEX heads_by_age ON job_heads (ready_at, job_id) WHERE status = 'pending';
CREATE INDEX heads_due ON job_heads (wake_at) WHERE status = 'waiting' AND wake_at IS NOT NULL;
-- Without the expiry in it, so that a renewal touches no index.
CREATE INDEX heads_leased ON job_heads (lease_token) WHERE status = 'running';
CREATE INDEX heads_held ON job_heads (wait_reason, job_id) WHERE status = 'waiting';
-- At most one job of a session is claimable, running, or in the middle of its turn.
CREATE UNIQUE INDEX heads_session_live ON job_heads (namespace, session_id) WHERE session_slot = 'live';
CREATE INDEX heads_session_behind ON job_heads (namespace, session_id, ready_at, job_id) WHERE session_slot = 'behind';

-- No foreign key: a row is only ever written together with the head it belongs to, and checking it again per event
-- would cost more than the event. `verify` looks for strays.
CREATE TABLE events (
    job_id {text} NOT NULL,
    seq {int} NOT NULL,
    type {text} NOT NULL,
    version {int} NOT NULL,
    fence {int} NOT NULL,
    at {int} NOT NULL,
    body {bytes},
    body_digest {bytes} NOT NULL,
    hash {bytes} NOT NULL,
    PRIMARY KEY (job_id, seq)
) {options};

-- One row here for the length of a transaction opens the journal to the retention job; see 0006.
CREATE TABLE retention_gate (
    opened_by {text} PRIMARY KEY
) {options};

CREATE TABLE mail (
    job_id {text} NOT NULL REFERENCES job_heads (job_id),
    mail_seq {int} NOT NULL,
    kind {text} NOT NULL,
    name {text} NOT NULL,
    body {bytes},
    body_digest {bytes} NOT NULL,
    sender {text} NOT NULL,
    operation_id {text} NOT NULL,
    sent_at {int} NOT NULL,
    PRIMARY KEY (job_id, mail_seq),
    UNIQUE (job_id, operation_id)
) {options};

CREATE TABLE timers (
    job_id {text} NOT NULL REFERENCES job_heads (job_id),
    step_key {text} NOT NULL,
    due_at {int} NOT NULL,
    PRIMARY KEY (job_id, step_key)
) {options};
