-- Retention. The body of an erased event is empty: no body is empty when it is written, and a body that is NULL is in a
-- blob.

-- name: list_prunable_jobs
-- Jobs that ended long enough ago and are not pruned this way yet.
SELECT h.job_id
FROM job_heads h
JOIN events e ON e.job_id = h.job_id AND e.seq = h.head_seq
LEFT JOIN tombstones t ON t.job_id = h.job_id
WHERE h.job_id > :after AND h.status IN ('completed', 'failed', 'cancelled') AND e.at <= {now} - :older_than_us
  AND (t.how IS NULL OR t.how <> :how)
ORDER BY h.job_id LIMIT :limit;

-- name: get_retention_state
-- A job with everything that the rule of retention needs.
SELECT h.job_id, h.namespace, h.kind, h.status, h.head_seq, h.head_hash, j.created_at, e.at, j.request_key,
       j.request_digest, p.status,
       (SELECT CAST(count(*) AS {int}) FROM jobs c WHERE c.parent_job_id = h.job_id),
       (SELECT CAST(count(*) AS {int}) FROM tool_calls c WHERE c.job_id = h.job_id),
       (SELECT CAST(count(*) AS {int}) FROM tool_calls c
        WHERE c.job_id = h.job_id AND c.status IN ('prepared', 'uncertain')),
       t.how
FROM job_heads h
JOIN jobs j ON j.job_id = h.job_id
JOIN events e ON e.job_id = h.job_id AND e.seq = h.head_seq
LEFT JOIN job_heads p ON p.job_id = j.parent_job_id
LEFT JOIN tombstones t ON t.job_id = h.job_id
WHERE h.job_id = :job_id;

-- name: count_bodies_to_erase
-- How many bodies there are to erase, and how many bytes.
SELECT CAST(count(*) AS {int}), coalesce(CAST(sum(coalesce(length(e.body), length(b.body))) AS {int}), 0)
FROM events e JOIN job_heads h ON h.job_id = e.job_id
LEFT JOIN blobs b ON e.body IS NULL AND b.namespace = h.namespace AND b.digest = e.body_digest
WHERE e.job_id = :job_id AND e.type {any:types} AND (e.body IS NULL OR length(e.body) > 0);

-- name: count_bodies_to_remove
-- How many events a job has, and how many bytes of bodies.
SELECT CAST(count(*) AS {int}), coalesce(CAST(sum(coalesce(length(e.body), length(b.body))) AS {int}), 0)
FROM events e JOIN job_heads h ON h.job_id = e.job_id
LEFT JOIN blobs b ON e.body IS NULL AND b.namespace = h.namespace AND b.digest = e.body_digest
WHERE e.job_id = :job_id;

-- name: open_retention_gate
-- Allow this transaction to change journals, until it closes the gate.
INSERT INTO retention_gate (opened_by) VALUES ('retention');

-- name: close_retention_gate
-- Make the journals append-only again.
DELETE FROM retention_gate;

-- name: erase_events
-- Erase the bodies of these events; the events and the digests of their bodies stay.
UPDATE events SET body = :nothing WHERE job_id = :job_id AND type {any:types};

-- name: erase_mail
-- Erase the bodies of the letters; their senders and times stay.
UPDATE mail SET body = :nothing WHERE job_id = :job_id;

-- name: remove_events
-- Remove the journal.
DELETE FROM events WHERE job_id = :job_id;

-- name: remove_mail
-- Remove the letters.
DELETE FROM mail WHERE job_id = :job_id;

-- name: remove_calls
-- Remove the ledger of this job.
DELETE FROM tool_calls WHERE job_id = :job_id;

-- name: remove_head
-- Remove the head of the job.
DELETE FROM job_heads WHERE job_id = :job_id;

-- name: remove_job
-- Remove the job.
DELETE FROM jobs WHERE job_id = :job_id;

-- name: put_tombstone
-- Record that the job was erased or removed.
INSERT INTO tombstones (job_id, namespace, kind, status, head_seq, head_hash, created_at, ended_at, pruned_at, how,
                        request_key, request_digest)
VALUES (:job_id, :namespace, :kind, :status, :head_seq, :head_hash, :created_at, :ended_at, {now}, :how, :request_key,
        :request_digest)
ON CONFLICT (job_id) DO UPDATE SET how = excluded.how, pruned_at = excluded.pruned_at;

-- name: find_tombstone
-- The tombstone of a job.
SELECT job_id, namespace, kind, status, head_seq, head_hash, created_at, ended_at, pruned_at, how
FROM tombstones WHERE job_id = :job_id;

-- name: list_model_requests
-- Requests to models, whose bodies refer to messages by their digests.
SELECT CASE WHEN e.body IS NOT NULL THEN e.body
            ELSE (SELECT b.body FROM blobs b WHERE b.namespace = h.namespace AND b.digest = e.body_digest) END
FROM events e JOIN job_heads h ON h.job_id = e.job_id
WHERE e.type = 'llm_requested' AND h.namespace = :namespace;

-- name: remove_old_blob
-- Remove the blob, unless a writer has stored it again meanwhile.
DELETE FROM blobs WHERE namespace = :namespace AND digest = :digest AND created_at <= :before
RETURNING CAST(length(body) AS {int});
