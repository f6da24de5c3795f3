-- The store itself: which one it is, which epoch it is in, and the walls inside it.

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
