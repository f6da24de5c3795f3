-- why: without statistics a planner takes any journal for a short one and sorts it, and the rows of a long one are sorted on
-- why: disk. So they come as they lie, and who reads them puts them in order; a journal has no gaps, so a limit is a range.

-- name: load_journal
-- The facts after a place; a large body comes from its blob, and one that was erased is none.
SELECT e.seq, e.type, e.version, e.fence, e.at,
       CASE WHEN length(e.body) > 0 THEN e.body
            WHEN e.body IS NULL THEN (SELECT b.body FROM job_heads h JOIN blobs b ON b.namespace = h.namespace AND b.digest = e.body_digest
                  WHERE h.job_id = e.job_id) END,
       e.body_digest, e.hash
FROM events e
WHERE e.job_id = :job_id AND e.seq > :after AND e.seq <= :after + :limit;
