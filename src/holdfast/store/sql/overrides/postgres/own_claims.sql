-- why: Postgres does not know how few jobs these are, and would join them with all heads and all children. Arrays, and
-- LATERAL with OFFSET 0, make it look up each of them.

-- name: select_own_jobs
-- The jobs to claim among these roots, their descendants, and the jobs that have the turn of a session in which one of
-- those queues; locked, in the order of `select_jobs_by_priority`. The last column is the time. A job of the third kind
-- is skipped until it has been ready or due for `ahead_us`: its own driver comes first.
WITH RECURSIVE own (job_id) AS (
    SELECT job_id FROM jobs WHERE job_id {any:roots}
    UNION
    SELECT child.job_id FROM own CROSS JOIN LATERAL (
        SELECT job_id FROM jobs WHERE parent_job_id = own.job_id OFFSET 0
    ) AS child
), ahead (job_id) AS (
    SELECT front.job_id FROM job_heads mine CROSS JOIN LATERAL (
        SELECT job_id FROM job_heads
        WHERE namespace = mine.namespace AND session_id = mine.session_id AND session_slot = 'live' OFFSET 0
    ) AS front
    WHERE mine.job_id = ANY(ARRAY(SELECT job_id FROM own)) AND mine.session_slot = 'behind'
)
SELECT {head}, {now}
FROM job_heads
WHERE job_id = ANY(ARRAY(SELECT job_id FROM own UNION SELECT job_id FROM ahead))
  AND queue {any:queues} AND (:any_kind = 1 OR kind {any:kinds})
  AND (CAST(:namespace AS TEXT) IS NULL OR namespace = :namespace)
  AND (session_slot IS NULL OR session_slot <> 'behind')
  AND ((status = 'pending' AND ready_at <= {now} - CASE WHEN job_id = ANY(ARRAY(SELECT job_id FROM own)) THEN 0 ELSE CAST(:ahead_us AS bigint) END)
       OR (status = 'waiting' AND wake_at IS NOT NULL AND wake_at <= {now} - CASE WHEN job_id = ANY(ARRAY(SELECT job_id FROM own)) THEN 0 ELSE CAST(:ahead_us AS bigint) END
           AND wait_reason NOT IN ('drift', 'stalled', 'dead_letter', 'restore_review', 'joined'))
       OR (status = 'running' AND (lease_expires_at <= {tick} OR lease_boot <> {boot})))
  AND (CAST(:incarnation AS TEXT) IS NULL
       OR EXISTS (SELECT 1 FROM worker_leases w WHERE w.worker = :worker AND w.incarnation = :incarnation))
ORDER BY priority DESC, ready_at, job_id LIMIT :limit {skip_locked};
