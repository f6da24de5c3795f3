-- Leases.

-- name: list_heads_by_token
-- The grants of an earlier claim with this token: its reply may have been lost.
SELECT {head} FROM job_heads WHERE status = 'running' AND lease_owner = :worker AND lease_token = :token;

-- name: select_jobs_by_priority
-- The jobs to claim, locked. A job is claimable if it is ready, due (its timer has expired), or lost (running with an
-- expired lease); one order applies to all three. Jobs that have lost `suspect_at` holders are skipped; a lost job has
-- lost one more than its head counts. Jobs that another claimer has locked are skipped without a wait. The last column
-- is the time. A worker that claims under its worker lease gets nothing if that lease no longer exists. `NOT ready_at
-- >`, because with `ready_at <=` SQLite would fetch all ready jobs by age and sort them.
WITH ready AS MATERIALIZED (
    SELECT {head} FROM job_heads
    WHERE status = 'pending' AND NOT ready_at > {now} AND queue {any:queues} AND (:any_kind = 1 OR kind {any:kinds})
      AND (CAST(:namespace AS TEXT) IS NULL OR namespace = :namespace) AND takeovers < :suspect_at
      AND (session_slot IS NULL OR session_slot <> 'behind')
    ORDER BY priority DESC, ready_at, job_id LIMIT :limit {skip_locked}
), due AS MATERIALIZED (
    SELECT {head} FROM job_heads
    WHERE status = 'waiting' AND wake_at IS NOT NULL AND wake_at <= {now}
      AND wait_reason NOT IN ('drift', 'stalled', 'dead_letter', 'restore_review', 'joined')
      AND (session_slot IS NULL OR session_slot <> 'behind')
      AND queue {any:queues} AND (:any_kind = 1 OR kind {any:kinds})
      AND (CAST(:namespace AS TEXT) IS NULL OR namespace = :namespace) AND takeovers < :suspect_at
    ORDER BY priority DESC, ready_at, job_id LIMIT :limit {skip_locked}
), lost AS MATERIALIZED (
    SELECT {head} FROM job_heads
    WHERE status = 'running' AND (lease_expires_at <= {tick} OR lease_boot <> {boot})
      AND queue {any:queues} AND (:any_kind = 1 OR kind {any:kinds})
      AND (CAST(:namespace AS TEXT) IS NULL OR namespace = :namespace) AND takeovers + 1 < :suspect_at
    ORDER BY priority DESC, ready_at, job_id LIMIT :limit {skip_locked}
)
SELECT claimable.*, {now} FROM (SELECT * FROM ready UNION ALL SELECT * FROM due UNION ALL SELECT * FROM lost) AS claimable
WHERE (CAST(:incarnation AS TEXT) IS NULL
       OR EXISTS (SELECT 1 FROM worker_leases w WHERE w.worker = :worker AND w.incarnation = :incarnation))
ORDER BY priority DESC, ready_at, job_id LIMIT :limit;

-- name: select_jobs_by_age
-- As `select_jobs_by_priority`, with the oldest first: the claim that prevents starvation of low priorities.
WITH ready AS MATERIALIZED (
    SELECT {head} FROM job_heads
    WHERE status = 'pending' AND ready_at <= {now} AND queue {any:queues} AND (:any_kind = 1 OR kind {any:kinds})
      AND (CAST(:namespace AS TEXT) IS NULL OR namespace = :namespace) AND takeovers < :suspect_at
      AND (session_slot IS NULL OR session_slot <> 'behind')
    ORDER BY ready_at, job_id LIMIT :limit {skip_locked}
), due AS MATERIALIZED (
    SELECT {head} FROM job_heads
    WHERE status = 'waiting' AND wake_at IS NOT NULL AND wake_at <= {now}
      AND wait_reason NOT IN ('drift', 'stalled', 'dead_letter', 'restore_review', 'joined')
      AND (session_slot IS NULL OR session_slot <> 'behind')
      AND queue {any:queues} AND (:any_kind = 1 OR kind {any:kinds})
      AND (CAST(:namespace AS TEXT) IS NULL OR namespace = :namespace) AND takeovers < :suspect_at
    ORDER BY ready_at, job_id LIMIT :limit {skip_locked}
), lost AS MATERIALIZED (
    SELECT {head} FROM job_heads
    WHERE status = 'running' AND (lease_expires_at <= {tick} OR lease_boot <> {boot})
      AND queue {any:queues} AND (:any_kind = 1 OR kind {any:kinds})
      AND (CAST(:namespace AS TEXT) IS NULL OR namespace = :namespace) AND takeovers + 1 < :suspect_at
    ORDER BY ready_at, job_id LIMIT :limit {skip_locked}
)
SELECT claimable.*, {now} FROM (SELECT * FROM ready UNION ALL SELECT * FROM due UNION ALL SELECT * FROM lost) AS claimable
WHERE (CAST(:incarnation AS TEXT) IS NULL
       OR EXISTS (SELECT 1 FROM worker_leases w WHERE w.worker = :worker AND w.incarnation = :incarnation))
ORDER BY ready_at, job_id LIMIT :limit;

-- name: select_own_jobs
-- The jobs to claim among these roots, their descendants, and the jobs that have the turn of a session in which one of
-- those queues; locked, in the order of `select_jobs_by_priority`. The last column is the time. A job of the third kind
-- is skipped until it has been ready or due for `ahead_us`: its own driver comes first.
WITH RECURSIVE own (job_id) AS (
    SELECT job_id FROM jobs WHERE job_id {any:roots}
    UNION
    SELECT child.job_id FROM own JOIN jobs child ON child.parent_job_id = own.job_id
), ahead (job_id) AS (
    SELECT front.job_id FROM job_heads mine CROSS JOIN job_heads front
    WHERE mine.job_id IN (SELECT job_id FROM own) AND mine.session_slot = 'behind'
      AND front.namespace = mine.namespace AND front.session_id = mine.session_id AND front.session_slot = 'live'
)
SELECT {head}, {now}
FROM job_heads
WHERE job_id IN (SELECT job_id FROM own UNION SELECT job_id FROM ahead)
  AND queue {any:queues} AND (:any_kind = 1 OR kind {any:kinds})
  AND (CAST(:namespace AS TEXT) IS NULL OR namespace = :namespace)
  AND (session_slot IS NULL OR session_slot <> 'behind')
  AND ((status = 'pending' AND ready_at <= {now} - CASE WHEN job_id IN (SELECT job_id FROM own) THEN 0 ELSE :ahead_us END)
       OR (status = 'waiting' AND wake_at IS NOT NULL AND wake_at <= {now} - CASE WHEN job_id IN (SELECT job_id FROM own) THEN 0 ELSE :ahead_us END
           AND wait_reason NOT IN ('drift', 'stalled', 'dead_letter', 'restore_review', 'joined'))
       OR (status = 'running' AND (lease_expires_at <= {tick} OR lease_boot <> {boot})))
  AND (CAST(:incarnation AS TEXT) IS NULL
       OR EXISTS (SELECT 1 FROM worker_leases w WHERE w.worker = :worker AND w.incarnation = :incarnation))
ORDER BY priority DESC, ready_at, job_id LIMIT :limit {skip_locked};

-- name: select_job_to_hand_over
-- The job that its holder hands over, locked, if the holder still has it. The last column is the time. (For the token
-- see `advance_head`.)
SELECT {head}, {now}
FROM job_heads
WHERE job_id = :job_id AND status = 'running' AND fence = :fence AND lease_token = :lease_token AND :lease_token <> ''
{for_update};

-- name: grant_lease
-- Grant the lease: the job runs under this token and a new fence, with `job_claimed` as its newest event.
UPDATE job_heads
SET head_seq = :head_seq, head_hash = :head_hash, fence = :fence, status = 'running', wait_reason = NULL, wake_at = NULL,
    lease_token = :lease_token, lease_owner = :lease_owner, lease_boot = {boot}, lease_expires_at = {tick} + :ttl_us,
    takeovers = :takeovers
WHERE job_id = :job_id
RETURNING lease_expires_at;

-- name: renew_lease
-- Renew the lease for `ttl_us` from now. No row: it is lost. The fence decides, not the clock. (For the token see
-- `advance_head`.)
UPDATE job_heads SET lease_expires_at = {tick} + :ttl_us, lease_boot = {boot}
WHERE job_id = :job_id AND fence = :fence AND lease_token = :lease_token AND :lease_token <> ''
RETURNING job_id;

-- name: expire_leases_of_worker
-- Expire the leases of a worker that is proven dead, so that its jobs are claimable. Locked in id order, as everywhere.
WITH dead AS MATERIALIZED (
    SELECT job_id FROM job_heads WHERE status = 'running' AND lease_owner = :worker ORDER BY job_id {for_update}
)
UPDATE job_heads SET lease_expires_at = 0 WHERE job_id IN (SELECT job_id FROM dead) RETURNING queue;

-- name: list_expired_jobs
-- Running jobs whose lease has expired.
SELECT job_id FROM job_heads
WHERE status = 'running' AND (lease_expires_at <= {tick} OR lease_boot <> {boot})
ORDER BY lease_expires_at, job_id LIMIT :limit;

-- name: lock_expired_heads
-- The same as heads, locked. Heads that another transaction has locked are skipped; the next sweep finds them if need
-- be. The last column is the time.
SELECT {head},
       {now}
FROM job_heads
WHERE status = 'running' AND (lease_expires_at <= {tick} OR lease_boot <> {boot})
ORDER BY lease_expires_at, job_id LIMIT :limit {skip_locked};

-- name: list_lease_owners
-- The holders of jobs, by name.
SELECT DISTINCT lease_owner FROM job_heads WHERE status = 'running' ORDER BY lease_owner;

-- name: count_held_jobs
-- How many jobs this worker holds, by leases that have not expired.
SELECT CAST(count(*) AS {int}) FROM job_heads
WHERE status = 'running' AND lease_owner = :worker AND lease_expires_at > {tick} AND lease_boot = {boot};

-- name: get_claim_event
-- The `job_claimed` event of a grant, by the grant's unique fence.
SELECT body FROM events WHERE job_id = :job_id AND fence = :fence AND type = 'job_claimed' ORDER BY seq LIMIT 1;

-- name: start_worker_lease
-- Store the lease of the worker, in place of any other under its name.
INSERT INTO worker_leases (worker, incarnation, identity, ttl_us, beat)
VALUES (:worker, :incarnation, :identity, :ttl_us, :beat)
ON CONFLICT (worker) DO UPDATE
SET incarnation = excluded.incarnation, identity = excluded.identity, ttl_us = excluded.ttl_us, beat = excluded.beat;

-- name: renew_worker_lease
-- Write the beat of the worker. No row changed: its lease was declared expired, or another process has its name.
UPDATE worker_leases SET beat = :beat WHERE worker = :worker AND incarnation = :incarnation;

-- name: list_worker_leases
-- The leases of all workers.
SELECT worker, incarnation, identity, ttl_us, beat FROM worker_leases;

-- name: lock_worker_lease
-- The lease under which a worker claims; it cannot be declared expired before the claim is committed.
SELECT incarnation FROM worker_leases WHERE worker = :worker {for_key_share};

-- name: expire_worker_lease
-- Remove the worker lease, if it still has the incarnation and the beat that the observer saw.
DELETE FROM worker_leases
WHERE worker = :worker AND (CAST(:incarnation AS TEXT) IS NULL OR incarnation = :incarnation)
  AND (CAST(:beat AS {int}) IS NULL OR beat = :beat)
RETURNING worker;
