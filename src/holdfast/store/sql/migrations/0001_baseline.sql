-- Baseline: the whole schema, for both databases.

-- The store: its identity, its epoch, and its namespaces.

CREATE TABLE store_state (
    singleton {int} PRIMARY KEY CHECK (singleton = 1),
    store_id {text} NOT NULL,
    epoch {int} NOT NULL CHECK (epoch >= 1),
    min_reader {int} NOT NULL,
    created_at {int} NOT NULL
) {options};

CREATE TABLE namespaces (
    namespace {text} PRIMARY KEY,
    created_at {int} NOT NULL
) {options};

-- Bytes stored once under their SHA-256. A body of at most 8 KiB lies in its own row instead, see `body` columns.
CREATE TABLE blobs (
    namespace {text} NOT NULL REFERENCES namespaces (namespace),
    digest {bytes} NOT NULL,
    body {bytes} NOT NULL,
    created_at {int} NOT NULL,
    PRIMARY KEY (namespace, digest)
) {options};

-- Facts about the store itself, one row each: when it was last swept, when it was last backed up. They belong to no namespace.
CREATE TABLE metadata (
    key {text} PRIMARY KEY,
    value {bytes} NOT NULL,
    updated_at {int} NOT NULL
) {options};

-- Store time: see `store.store_clock`. A file has `offset_us` for a boot of its host, a server has `step_us` and its `epoch`.
-- `seen_at` is a time that the store has seen.
CREATE TABLE store_clock (
    singleton {int} PRIMARY KEY CHECK (singleton = 1),
    boot {text} NOT NULL,
    offset_us {int} NOT NULL,
    step_us {int} NOT NULL,
    epoch {int} NOT NULL,
    seen_at {int} NOT NULL
) {options};

INSERT INTO store_clock (singleton, boot, offset_us, step_us, epoch, seen_at) VALUES (1, '', 0, 0, 0, 0);

-- Jobs: what was submitted, the narrow head that every append updates, the journal, mail and timers.

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

-- Listings are newest first; the id decides between jobs of one instant.
CREATE INDEX jobs_by_age ON jobs (created_at, job_id);
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

-- In the order of claims, so that a claim reads only the rows that it takes.
CREATE INDEX heads_by_priority ON job_heads (priority DESC, ready_at, job_id) WHERE status = 'pending';
CREATE INDEX heads_by_age ON job_heads (ready_at, job_id) WHERE status = 'pending';
CREATE INDEX heads_due ON job_heads (wake_at) WHERE status = 'waiting' AND wake_at IS NOT NULL;
-- By holder, then by claim token: every claim of an external agent counts what the agent holds. The expiry is left out, so
-- that a renewal updates no index.
CREATE INDEX heads_leased ON job_heads (lease_owner, lease_token) WHERE status = 'running';
CREATE INDEX heads_held ON job_heads (wait_reason, job_id) WHERE status = 'waiting';
-- Pending jobs with unread mail.
CREATE INDEX job_heads_with_mail ON job_heads (job_id) WHERE status = 'pending' AND mail_seq > 0;
-- Suspects that wait for a worker, found without reading the queue.
-- The 2 is `model.crash_suspects.SUSPECT_AT`. With OR, because SQLite makes a table of the words after IN for every single write.
CREATE INDEX heads_suspect ON job_heads (job_id) WHERE (status = 'pending' OR status = 'waiting') AND takeovers >= 2;
-- At most one job of a session is claimable or running.
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

-- Open questions and approvals of running jobs, found without reading their journals.
-- With OR, because SQLite makes a table of the words after IN for every single insert.
CREATE INDEX events_asking ON events (job_id, type)
WHERE type = 'approval_requested' OR type = 'approval_decided' OR type = 'question_asked';

-- One row here for the length of a transaction opens the journal to retention; see the triggers at the end.
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

-- The ledger: one row per step key and generation; a re-send updates its attempt.

CREATE TABLE tool_calls (
    tool_call_id {text} PRIMARY KEY,
    job_id {text} NOT NULL REFERENCES job_heads (job_id),
    step_key {text} NOT NULL,
    generation {int} NOT NULL,
    tool_name {text} NOT NULL,
    raw_tool_name {text} NOT NULL,
    side_effect_class {text} NOT NULL CHECK (side_effect_class IN ('read_only', 'idempotent', 'verifiable', 'unsafe')),
    status {text} NOT NULL
        CHECK (status IN ('prepared', 'succeeded', 'failed', 'uncertain', 'abandoned_on_resume', 'skipped')),
    idempotency_key {text} NOT NULL UNIQUE,
    args_digest {text} NOT NULL,
    attempt {int} NOT NULL,
    fence {int} NOT NULL,
    intent_seq {int} NOT NULL,
    result_seq {int},
    start_by {int},
    longest_call_us {int},
    approval_id {text},
    prepared_at {int} NOT NULL,
    settled_at {int},
    UNIQUE (job_id, step_key, generation)
) {options};

CREATE INDEX calls_open ON tool_calls (status, job_id) WHERE status IN ('prepared', 'uncertain');

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

-- Response cache of models. Nothing depends on it: any row may be removed at any time.

CREATE TABLE cache_entries (
    namespace {text} NOT NULL REFERENCES namespaces (namespace),
    key {bytes} NOT NULL,
    body {bytes} NOT NULL,
    created_at {int} NOT NULL,
    expires_at {int} NOT NULL,
    PRIMARY KEY (namespace, key)
) {options};

CREATE INDEX cache_by_expiry ON cache_entries (expires_at);

-- Retention: what is kept of a job that was erased or removed.

CREATE TABLE tombstones (
    job_id {text} PRIMARY KEY,
    namespace {text} NOT NULL REFERENCES namespaces (namespace),
    kind {text} NOT NULL,
    status {text} NOT NULL CHECK (status IN ('completed', 'failed', 'cancelled')),
    head_seq {int} NOT NULL,
    head_hash {bytes} NOT NULL,
    created_at {int} NOT NULL,
    ended_at {int} NOT NULL,
    pruned_at {int} NOT NULL,
    how {text} NOT NULL CHECK (how IN ('erase', 'remove')),
    request_key {text},
    request_digest {bytes} NOT NULL
) {options};

-- A request key is recognised for as long as its tombstone is kept.
CREATE UNIQUE INDEX tombstones_by_request ON tombstones (namespace, request_key) WHERE request_key IS NOT NULL;

-- Output streams of running jobs. No foreign key, like events: a row is only written under the job's lease, and is removed
-- with the job. The order of the key is the order of reading.

CREATE TABLE stream_passages (
    job_id {text} NOT NULL,
    fence {int} NOT NULL,
    last {int} NOT NULL,
    chunks {int} NOT NULL CHECK (chunks BETWEEN 1 AND last),
    voices {text} NOT NULL,
    at {int} NOT NULL,
    body {bytes} NOT NULL,
    PRIMARY KEY (job_id, fence, last)
) {options};

-- Budgets: what a job and everything below it may use, and what they have used together.

CREATE TABLE budgets (
    budget_id {text} PRIMARY KEY REFERENCES job_heads (job_id),
    namespace {text} NOT NULL,
    depth {int} NOT NULL,
    created_at {int} NOT NULL,
    limits {bytes} NOT NULL,
    usd_micros {int} NOT NULL CHECK (usd_micros >= 0),
    tokens {int} NOT NULL CHECK (tokens >= 0),
    tool_calls {int} NOT NULL CHECK (tool_calls >= 0)
) {narrow};

-- Configured agents (no code of their own).

CREATE TABLE agents (
    namespace {text} NOT NULL REFERENCES namespaces (namespace),
    agent_id {text} NOT NULL,
    name {text} NOT NULL,
    kind {text} NOT NULL,
    configuration {bytes} NOT NULL,
    created_at {int} NOT NULL,
    PRIMARY KEY (namespace, agent_id),
    UNIQUE (namespace, name)
) {options};

-- Schedules. A firing is a compare-and-set on `next_at`.

CREATE TABLE schedules (
    namespace {text} NOT NULL REFERENCES namespaces (namespace),
    schedule_id {text} NOT NULL,
    kind {text} NOT NULL,
    queue {text} NOT NULL,
    priority {int} NOT NULL CHECK (priority BETWEEN 1 AND 10),
    request {bytes} NOT NULL,
    cron {text} NOT NULL,
    time_zone {text} NOT NULL,
    catch_up {text} NOT NULL CHECK (catch_up IN ('skip', 'one', 'all')),
    paused {int} NOT NULL CHECK (paused IN (0, 1)),
    next_at {int} NOT NULL,
    created_at {int} NOT NULL,
    PRIMARY KEY (namespace, schedule_id)
) {options};

CREATE INDEX schedules_due ON schedules (next_at) WHERE paused = 0;

-- Queue limits (admission control). No row: no limit.

CREATE TABLE queue_limits (
    namespace {text} NOT NULL REFERENCES namespaces (namespace),
    queue {text} NOT NULL,
    depth_max {int},
    age_max_us {int},
    PRIMARY KEY (namespace, queue)
) {options};

-- API keys, and the audit log.

CREATE TABLE api_keys (
    key_id {text} PRIMARY KEY,
    namespace {text} NOT NULL REFERENCES namespaces (namespace),
    name {text} NOT NULL,
    roles {text} NOT NULL,
    digest {bytes} NOT NULL,
    session_id {text},
    expires_at {int},
    created_at {int} NOT NULL,
    revoked_at {int},
    last_used_at {int}
) {options};

CREATE INDEX api_keys_by_namespace ON api_keys (namespace, key_id);

-- The last line of each namespace's audit log. A writer locks this row.
CREATE TABLE audit_heads (
    namespace {text} PRIMARY KEY REFERENCES namespaces (namespace),
    seq {int} NOT NULL,
    hash {bytes} NOT NULL
) {options};

CREATE TABLE audit_acts (
    namespace {text} NOT NULL REFERENCES namespaces (namespace),
    seq {int} NOT NULL CHECK (seq >= 1),
    act_id {text} NOT NULL,
    at {int} NOT NULL,
    what {text} NOT NULL,
    body {bytes} NOT NULL,
    hash {bytes} NOT NULL,
    PRIMARY KEY (namespace, seq),
    UNIQUE (namespace, act_id)
) {options};

-- Worker presences: one row per worker process, written by its heartbeat.

CREATE TABLE worker_presences (
    worker {text} NOT NULL,
    identity {text} NOT NULL,
    host {text} NOT NULL,
    pid {int} NOT NULL,
    offer {bytes} NOT NULL,
    draining {int} NOT NULL,
    started_at {int} NOT NULL,
    seen_at {int} NOT NULL,
    -- When an operator requested the drain.
    drain_asked_at {int},
    PRIMARY KEY (worker)
) {options};

-- One lease per worker process, for all the jobs that it runs. Small and updated often, hence the free space in its pages.
CREATE TABLE worker_leases (
    worker {text} PRIMARY KEY,
    incarnation {text} NOT NULL,
    identity {text} NOT NULL,
    ttl_us {int} NOT NULL,
    beat {int} NOT NULL
) {narrow};

-- Work items, routed by capability, and external agents.

-- Routing of a job that is a work item; its content is in its journal.
CREATE TABLE work_items (
    job_id {text} NOT NULL REFERENCES jobs (job_id),
    namespace {text} NOT NULL REFERENCES namespaces (namespace),
    project {text} NOT NULL,
    capability {text} NOT NULL,
    boundary {text} NOT NULL,
    preferred_type {text} NOT NULL,
    deadline_at {int},
    PRIMARY KEY (job_id)
) {options};
CREATE INDEX work_items_by_namespace ON work_items (namespace, job_id);
CREATE INDEX work_items_by_deadline ON work_items (deadline_at) WHERE deadline_at IS NOT NULL;
CREATE INDEX work_items_by_preference ON work_items (capability) WHERE preferred_type <> '';

-- External agents, as each registered itself. A revision is used once.
CREATE TABLE agent_entries (
    namespace {text} NOT NULL REFERENCES namespaces (namespace),
    guid {text} NOT NULL,
    revision {int} NOT NULL,
    entry {bytes} NOT NULL,
    heard_at {int} NOT NULL,
    PRIMARY KEY (namespace, guid)
) {options};

-- Append-only tables: the database rejects an update or delete of an event of a journal and of a line of the audit log. Only
-- retention may change a journal, and only inside a transaction that holds a row of `retention_gate`.

-- only: sqlite
CREATE TRIGGER events_are_not_changed BEFORE UPDATE ON events
WHEN NOT EXISTS (SELECT 1 FROM retention_gate)
BEGIN SELECT RAISE(ABORT, 'the journal is append-only'); END;

CREATE TRIGGER events_are_not_removed BEFORE DELETE ON events
WHEN NOT EXISTS (SELECT 1 FROM retention_gate)
BEGIN SELECT RAISE(ABORT, 'the journal is append-only'); END;

CREATE TRIGGER acts_are_not_changed BEFORE UPDATE ON audit_acts
BEGIN SELECT RAISE(ABORT, 'the audit log is append-only'); END;

CREATE TRIGGER acts_are_not_removed BEFORE DELETE ON audit_acts
BEGIN SELECT RAISE(ABORT, 'the audit log is append-only'); END;

-- only: postgres
CREATE FUNCTION refuse_journal_change() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF NOT EXISTS (SELECT 1 FROM retention_gate) THEN
        RAISE EXCEPTION 'the journal is append-only' USING ERRCODE = 'integrity_constraint_violation';
    END IF;
    IF TG_OP = 'DELETE' THEN RETURN OLD; END IF;
    RETURN NEW;
END $$;

CREATE TRIGGER events_are_not_changed BEFORE UPDATE OR DELETE ON events
FOR EACH ROW EXECUTE FUNCTION refuse_journal_change();

CREATE FUNCTION refuse_audit_change() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'the audit log is append-only' USING ERRCODE = 'integrity_constraint_violation';
END $$;

CREATE TRIGGER acts_are_not_changed BEFORE UPDATE OR DELETE ON audit_acts
FOR EACH ROW EXECUTE FUNCTION refuse_audit_change();
