-- why: without statistics the planner takes any journal for a short one and sorts it, and it sorts the rows of a long one on
-- why: disk. So they come unordered, and the caller sorts them; a journal has no gaps, so the limit is a range of seqs.

-- name: load_journal
-- The events after a seq; a large body comes from its blob, and an erased one is NULL.
SELECT e.seq, e.type, e.version, e.fence, e.at,
       CASE WHEN length(e.body) > 0 THEN e.body
            WHEN e.body IS NULL THEN (SELECT b.body FROM job_heads h JOIN blobs b ON b.namespace = h.namespace AND b.digest = e.body_digest
                  WHERE h.job_id = e.job_id) END,
       e.body_digest, e.hash
FROM events e
WHERE e.job_id = :job_id AND e.seq > :after AND e.seq <= :after + :limit;
