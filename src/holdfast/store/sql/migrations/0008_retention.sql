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

-- A request that was answered once is recognised for ever.
CREATE UNIQUE INDEX tombstones_by_request ON tombstones (namespace, request_key) WHERE request_key IS NOT NULL;
