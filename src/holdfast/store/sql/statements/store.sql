-- The store itself, namespaces and blobs.

-- name: get_store_state
-- The identity, epoch and oldest reader of the store.
SELECT store_id, epoch, min_reader, created_at FROM store_state;

-- name: create_store_state
-- Give a new store an identity and its first epoch.
INSERT INTO store_state (singleton, store_id, epoch, min_reader, created_at)
VALUES (1, :store_id, 1, :min_reader, {now}) ON CONFLICT DO NOTHING;

-- name: create_namespace
-- Create the namespace. A row: it did not exist before.
INSERT INTO namespaces (namespace, created_at) VALUES (:namespace, {now}) ON CONFLICT DO NOTHING RETURNING namespace;

-- name: has_namespace
-- A row: the namespace exists. Its value: whether one of its queues has limits.
SELECT CASE WHEN EXISTS (SELECT 1 FROM queue_limits WHERE namespace = :namespace) THEN 1 ELSE 0 END
FROM namespaces WHERE namespace = :namespace;

-- name: list_namespaces
-- Every namespace, by name.
SELECT namespace, created_at FROM namespaces ORDER BY namespace;

-- name: put_blob
-- Store the bytes once. Storing them again renews their time: the writer is about to refer to them.
INSERT INTO blobs (namespace, digest, body, created_at) VALUES (:namespace, :digest, :body, {now})
ON CONFLICT (namespace, digest) DO UPDATE SET created_at = excluded.created_at;

-- name: get_blob
-- The bytes under this digest.
SELECT body FROM blobs WHERE namespace = :namespace AND digest = :digest;

-- name: has_blob
-- A row: the blob exists.
SELECT 1 FROM blobs WHERE namespace = :namespace AND digest = :digest;

-- name: count_blobs
-- How many blobs a namespace has.
SELECT CAST(count(*) AS {int}) FROM blobs WHERE namespace = :namespace;

-- name: list_unreferenced_blobs
-- Blobs to which no event, letter, node, item or frame refers. The references are collected once: a lookup for each
-- blob would read the whole journal for each blob.
SELECT b.digest, b.created_at
FROM blobs b
LEFT JOIN (
    SELECT e.body_digest AS digest FROM events e JOIN job_heads h ON h.job_id = e.job_id
    WHERE e.body IS NULL AND h.namespace = :namespace
    UNION
    SELECT m.body_digest FROM mail m JOIN job_heads h ON h.job_id = m.job_id
    WHERE m.body IS NULL AND h.namespace = :namespace
    UNION
    SELECT n.body_digest FROM session_nodes n WHERE n.body IS NULL AND n.namespace = :namespace
    UNION
    SELECT i.body_digest FROM inbox_items i WHERE i.body IS NULL AND i.namespace = :namespace
    UNION
    SELECT f.snapshot_digest FROM session_frames f WHERE f.snapshot IS NULL AND f.namespace = :namespace
) AS named ON named.digest = b.digest
WHERE b.namespace = :namespace AND named.digest IS NULL
ORDER BY b.digest;

-- name: list_checkpoints
-- The current checkpoint documents, which refer to their byte fields by digest.
SELECT checkpoint, states FROM sessions WHERE namespace = :namespace AND checkpoint IS NOT NULL;

-- name: list_attachment_uris
-- The addresses of the attachments of a namespace; some are blobs.
SELECT uri FROM attachments WHERE namespace = :namespace;

-- name: remove_blob
-- Remove the blob.
DELETE FROM blobs WHERE namespace = :namespace AND digest = :digest;
