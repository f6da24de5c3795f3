-- Store statistics.

-- name: count_unfinished_jobs
-- The number of unfinished jobs by queue, status and wait reason: each status has an index of its own.
SELECT queue, status, wait_reason, CAST(count(*) AS {int}), CAST(max(takeovers) AS {int})
FROM (
    SELECT queue, status, wait_reason, takeovers FROM job_heads WHERE status = 'pending'
    UNION ALL
    SELECT queue, status, wait_reason, takeovers FROM job_heads WHERE status = 'running'
    UNION ALL
    SELECT queue, status, wait_reason, takeovers FROM job_heads WHERE status = 'waiting'
) AS open
GROUP BY queue, status, wait_reason;

-- name: read_store_stats
-- The time; since when the oldest ready job is ready; the number of expired leases, of uncertain calls, of suspects
-- that no worker has claimed for a while, of valid cache entries, and of expired ones.
SELECT {now},
       (SELECT ready_at FROM job_heads WHERE status = 'pending' AND ready_at <= {now} ORDER BY ready_at LIMIT 1),
       CAST((SELECT count(*) FROM job_heads
             WHERE status = 'running' AND (lease_expires_at <= {tick} OR lease_boot <> {boot})) AS {int}),
       CAST((SELECT count(*) FROM tool_calls
             WHERE status IN ('prepared', 'uncertain') AND status = 'uncertain') AS {int}),
       CAST((SELECT count(*)
             FROM job_heads h JOIN events e ON e.job_id = h.job_id AND e.seq = h.head_seq
             WHERE (h.status = 'pending' OR h.status = 'waiting') AND h.takeovers >= 2 AND e.at <= {now} - :unclaimed_us
               AND CASE h.status WHEN 'pending' THEN h.ready_at ELSE h.wake_at END <= {now} - :unclaimed_us) AS {int}),
       CAST((SELECT count(*) FROM cache_entries WHERE expires_at > {now}) AS {int}),
       CAST((SELECT count(*) FROM cache_entries WHERE expires_at <= {now}) AS {int});

-- name: read_store_size
-- The size of the store in bytes.
SELECT page_count * page_size FROM pragma_page_count(), pragma_page_size();
