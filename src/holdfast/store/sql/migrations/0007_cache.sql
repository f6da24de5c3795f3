-- Answers that were paid for once. Nothing rests on them: any of them may be gone at any time.

CREATE TABLE cache_entries (
    namespace {text} NOT NULL REFERENCES namespaces (namespace),
    key {bytes} NOT NULL,
    body {bytes} NOT NULL,
    created_at {int} NOT NULL,
    expires_at {int} NOT NULL,
    PRIMARY KEY (namespace, key)
) {options};

CREATE INDEX cache_by_expiry ON cache_entries (expires_at);
