-- Jobs: submitting and finding them.

-- name: find_job_by_request
-- The job that an earlier request with this key made, with the digest of the request. Removed jobs count, too.
SELECT job_id, request_digest FROM jobs WHERE namespace = :namespace AND request_key = :request_key
UNION ALL
SELECT job_id, request_digest FROM tombstones
WHERE namespace = :namespace AND request_key = :request_key AND how = 'remove';

-- name: find_job_by_id
-- The job with this id, with the digest of its request. Removed jobs count, too: their ids are not reused.
SELECT namespace, request_digest FROM jobs WHERE job_id = :job_id
UNION ALL
SELECT namespace, request_digest FROM tombstones WHERE job_id = :job_id AND how = 'remove';

-- name: find_jobs_by_ids
-- Which of these ids are taken; as `find_job_by_id`.
SELECT job_id FROM jobs WHERE job_id {any:job_ids}
UNION ALL
SELECT job_id FROM tombstones WHERE job_id {any:job_ids} AND how = 'remove';

-- name: insert_job
-- Create the job. No row: another transaction has taken this id or request key meanwhile.
INSERT INTO jobs ({job})
VALUES ({job_values})
ON CONFLICT DO NOTHING
RETURNING created_at;

-- name: insert_head
-- Create the head of the job at its first event, in the store's current epoch.
INSERT INTO job_heads ({head})
VALUES (:job_id, :namespace, :queue, :kind, :priority, :status, :wait_reason, NULL, :ready_at, :session_id,
        :session_slot, 1, :head_hash, :fence, '', '', '', 0, 0, 0, 0);

-- name: get_job
-- One job, as the views show it.
SELECT {record}
FROM jobs j JOIN job_heads h ON h.job_id = j.job_id
WHERE j.job_id = :job_id;

-- name: list_jobs
-- A page of jobs, newest first; a NULL filter matches everything. `jobs_by_age` leads to where the page begins, and the
-- page is read along it. The filters are one CASE, because a planner that believes that they leave few rows reads all of them
-- and sorts; where they do leave few, `list_jobs_among` is asked.
SELECT {record}
FROM jobs j JOIN job_heads h ON h.job_id = j.job_id
WHERE (j.created_at, j.job_id) < (CAST(:before_at AS {int}), CAST(:before_id AS TEXT))
  AND j.created_at >= CAST(:since AS {int})
  AND CASE WHEN (CAST(:namespace AS TEXT) IS NULL OR j.namespace = :namespace)
            AND (CAST(:any_status AS {int}) = 1 OR h.status {any:statuses})
            AND (CAST(:wait_reason AS TEXT) IS NULL OR h.wait_reason = :wait_reason)
            AND (CAST(:kind AS TEXT) IS NULL OR j.kind = :kind)
            AND (CAST(:queue AS TEXT) IS NULL OR j.queue = :queue)
            AND (CAST(:session_id AS TEXT) IS NULL OR j.session_id = :session_id)
            AND (CAST(:parent_job_id AS TEXT) IS NULL OR j.parent_job_id = :parent_job_id)
            AND (CAST(:text AS TEXT) IS NULL
                 OR {place}(lower(j.job_id), :text) > 0 OR {place}(lower(j.kind), :text) > 0
                 OR {place}(lower(j.session_id), :text) > 0 OR {place}(lower(j.request_key), :text) > 0)
           THEN 1 ELSE 0 END <> 0
ORDER BY j.created_at DESC, j.job_id DESC
LIMIT :limit;

-- name: list_jobs_among
-- As `list_jobs`, among a few jobs with known ids. The conditions on the time have an OR, so that no plan uses `jobs_by_age`.
SELECT {record}
FROM jobs j JOIN job_heads h ON h.job_id = j.job_id
WHERE j.job_id {any:job_ids}
  AND (CAST(:namespace AS TEXT) IS NULL OR j.namespace = :namespace)
  AND (CAST(:any_status AS {int}) = 1 OR h.status {any:statuses})
  AND (CAST(:wait_reason AS TEXT) IS NULL OR h.wait_reason = :wait_reason)
  AND (CAST(:kind AS TEXT) IS NULL OR j.kind = :kind)
  AND (CAST(:queue AS TEXT) IS NULL OR j.queue = :queue)
  AND (CAST(:session_id AS TEXT) IS NULL OR j.session_id = :session_id)
  AND (CAST(:parent_job_id AS TEXT) IS NULL OR j.parent_job_id = :parent_job_id)
  AND (CAST(:since AS {int}) IS NULL OR j.created_at >= :since)
  AND (CAST(:text AS TEXT) IS NULL OR {place}(lower(j.job_id), :text) > 0 OR {place}(lower(j.kind), :text) > 0
       OR {place}(lower(j.session_id), :text) > 0 OR {place}(lower(j.request_key), :text) > 0)
  AND (CAST(:before_at AS {int}) IS NULL OR (j.created_at, j.job_id) < (:before_at, :before_id))
ORDER BY j.created_at DESC, j.job_id DESC
LIMIT :limit;

-- name: list_unfinished_job_ids
-- Unfinished jobs, each status from its own index, at most `limit`.
SELECT job_id FROM (
    SELECT job_id FROM job_heads WHERE status = 'pending' AND CAST(:pending AS {int}) = 1
    UNION ALL
    SELECT job_id FROM job_heads WHERE status = 'running' AND CAST(:running AS {int}) = 1
    UNION ALL
    SELECT job_id FROM job_heads WHERE status = 'waiting' AND wait_reason {any:reasons}
) open LIMIT :limit;

-- name: list_jobs_needing_person
-- Jobs that may need a person, by id: they wait for one, have an uncertain call, run and have an undecided approval or
-- a question, or are suspects that have been ready for a while without a claim (`model.crash_suspects.is_unclaimed`). Each
-- part uses an index of few rows. `calls_open`, `heads_suspect` and `events_asking` need their own condition repeated.
-- Suspects and running jobs are selected first, and each running job is looked up in `events_asking`, because that
-- index also contains the events of all ended jobs.
WITH running AS MATERIALIZED (
    SELECT job_id, namespace FROM job_heads WHERE status = 'running'
), suspects AS MATERIALIZED (
    SELECT job_id, namespace, head_seq, CASE status WHEN 'pending' THEN ready_at ELSE wake_at END AS claimable_at
    FROM job_heads WHERE (status = 'pending' OR status = 'waiting') AND takeovers >= 2
)
SELECT job_id FROM (
    SELECT h.job_id, h.namespace FROM job_heads h WHERE h.status = 'waiting' AND h.wait_reason {any:reasons}
    UNION
    SELECT h.job_id, h.namespace
    FROM tool_calls c JOIN job_heads h ON h.job_id = c.job_id
    WHERE c.status IN ('prepared', 'uncertain') AND c.status = 'uncertain'
      AND h.status IN ('pending', 'running', 'waiting')
    UNION
    SELECT r.job_id, r.namespace FROM running r
    WHERE EXISTS (
        SELECT count(*) FROM events e
        WHERE e.job_id = r.job_id
          AND (e.type = 'approval_requested' OR e.type = 'approval_decided' OR e.type = 'question_asked')
        HAVING count(CASE e.type WHEN 'question_asked' THEN 1 END) > 0
            OR count(CASE e.type WHEN 'approval_requested' THEN 1 END) > count(CASE e.type WHEN 'approval_decided' THEN 1 END)
    )
    UNION
    SELECT s.job_id, s.namespace
    FROM suspects s JOIN events e ON e.job_id = s.job_id AND e.seq = s.head_seq
    WHERE s.claimable_at <= {now} - :unclaimed_us AND e.at <= {now} - :unclaimed_us
) AS needing
WHERE job_id > :after AND (CAST(:namespace AS TEXT) IS NULL OR namespace = :namespace)
ORDER BY job_id LIMIT :limit;

-- name: list_session_job_ids
-- Jobs of a session, at most `limit`.
SELECT job_id FROM jobs WHERE namespace = :namespace AND session_id = :session_id LIMIT :limit;

-- name: list_child_job_ids
-- Children of a job, at most `limit`.
SELECT job_id FROM jobs WHERE parent_job_id = :parent_job_id LIMIT :limit;

-- name: count_jobs_by_state
-- The number of jobs that match, by status and wait reason.
SELECT h.status, h.wait_reason, CAST(count(*) AS {int})
FROM jobs j JOIN job_heads h ON h.job_id = j.job_id
WHERE (CAST(:namespace AS TEXT) IS NULL OR j.namespace = :namespace)
  AND (CAST(:any_status AS {int}) = 1 OR h.status {any:statuses})
  AND (CAST(:wait_reason AS TEXT) IS NULL OR h.wait_reason = :wait_reason)
  AND (CAST(:kind AS TEXT) IS NULL OR j.kind = :kind)
  AND (CAST(:queue AS TEXT) IS NULL OR j.queue = :queue)
  AND (CAST(:session_id AS TEXT) IS NULL OR j.session_id = :session_id)
  AND (CAST(:parent_job_id AS TEXT) IS NULL OR j.parent_job_id = :parent_job_id)
  AND (CAST(:since AS {int}) IS NULL OR j.created_at >= :since)
  AND (CAST(:until AS {int}) IS NULL OR j.created_at < :until)
  AND (CAST(:text AS TEXT) IS NULL OR {place}(lower(j.job_id), :text) > 0 OR {place}(lower(j.kind), :text) > 0
       OR {place}(lower(j.session_id), :text) > 0 OR {place}(lower(j.request_key), :text) > 0)
GROUP BY h.status, h.wait_reason;

-- name: count_heads_by_state
-- As `count_jobs_by_state`, for filters that need only the heads.
SELECT h.status, h.wait_reason, CAST(count(*) AS {int})
FROM job_heads h
WHERE (CAST(:namespace AS TEXT) IS NULL OR h.namespace = :namespace)
  AND (CAST(:any_status AS {int}) = 1 OR h.status {any:statuses})
  AND (CAST(:wait_reason AS TEXT) IS NULL OR h.wait_reason = :wait_reason)
  AND (CAST(:kind AS TEXT) IS NULL OR h.kind = :kind)
  AND (CAST(:queue AS TEXT) IS NULL OR h.queue = :queue)
  AND (CAST(:session_id AS TEXT) IS NULL OR h.session_id = :session_id)
GROUP BY h.status, h.wait_reason;

-- name: list_kinds
-- The kinds of jobs.
SELECT DISTINCT kind FROM job_heads
WHERE CAST(:namespace AS TEXT) IS NULL OR namespace = :namespace
ORDER BY kind LIMIT :limit;

-- name: list_queues
-- The queues of jobs.
SELECT DISTINCT queue FROM job_heads
WHERE CAST(:namespace AS TEXT) IS NULL OR namespace = :namespace
ORDER BY queue LIMIT :limit;

-- name: get_head
-- The head as it is now.
SELECT {head} FROM job_heads WHERE job_id = :job_id;

-- name: get_head_with_events
-- The head with each of its first events beside it, in any order. One statement, so both are of one instant.
SELECT {head:h},
       e.seq, e.type, e.version, e.fence, e.at,
       CASE WHEN length(e.body) > 0 THEN e.body
            WHEN e.body IS NULL
            THEN (SELECT b.body FROM blobs b WHERE b.namespace = h.namespace AND b.digest = e.body_digest) END,
       e.body_digest, e.hash
FROM job_heads h LEFT JOIN events e ON e.job_id = h.job_id AND e.seq <= :events
WHERE h.job_id = :job_id;

-- name: lock_head
-- The head, locked against every other writer until the transaction ends.
SELECT {head} FROM job_heads WHERE job_id = :job_id {for_update};

-- name: lock_heads
-- Several heads, locked in the order that every transaction uses.
SELECT job_id FROM job_heads WHERE job_id {any:job_ids} ORDER BY job_id {for_update};

-- name: read_lease_clock
-- The time of the lease clock.
SELECT {tick}, {boot};

-- name: read_wall_clock
-- The time of the store clock.
SELECT {now};

-- name: count_jobs
-- The number of jobs by status.
SELECT status, CAST(count(*) AS {int}) FROM job_heads
WHERE CAST(:namespace AS TEXT) IS NULL OR namespace = :namespace
GROUP BY status;
