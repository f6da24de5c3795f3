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
