-- Leases: who drives what.

-- name: list_heads_by_token
-- What an earlier claim under this token was granted: the reply may have been lost.
SELECT {head} FROM job_heads WHERE status = 'running' AND lease_owner = :worker AND lease_token = :token;

-- name: select_jobs_by_priority
-- The jobs to claim, locked. Three ways to be claimable and one order among them: ready, due (a timer rang), and lost
-- (running, but the lease is over). What has lost `suspect_at` holders is passed over; a lost job has lost one more than its
-- head counts. What another claimer has locked is passed over, never waited for. Last, the wall clock.
-- A worker that claims under its own lease gets nothing without it.
-- `NOT ready_at >`, because SQLite would take `ready_at <=` for a reason to fetch by age all that is ready and to sort it.
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
-- The same with the oldest first: the claim that keeps the least important job from waiting for ever.
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
-- The jobs to claim among these roots, their descendants, and the jobs with the turn in sessions in which one of those
-- stands behind; locked, in the order of `select_jobs_by_priority`. Last, the wall clock. A job of the third kind that is ready
-- or due is passed over until it has been for `ahead_us`: its own driver comes first.
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
-- The job that its holder hands over, locked, if it still has it. Last, the wall clock. (For the token see `advance_head`.)
SELECT {head}, {now}
FROM job_heads
WHERE job_id = :job_id AND status = 'running' AND fence = :fence AND lease_token = :lease_token AND :lease_token <> ''
{for_update};

-- name: grant_lease
-- The job runs under this token and a fence nobody had before; its newest event says so.
UPDATE job_heads
SET head_seq = :head_seq, head_hash = :head_hash, fence = :fence, status = 'running', wait_reason = NULL, wake_at = NULL,
    lease_token = :lease_token, lease_owner = :lease_owner, lease_boot = {boot}, lease_expires_at = {tick} + :ttl_us,
    takeovers = :takeovers
WHERE job_id = :job_id
RETURNING lease_expires_at;

-- name: renew_lease
-- The lease lasts `ttl_us` from now. No row: it is lost. The clock is not asked, the fence is. (For the token see
-- `advance_head`.)
UPDATE job_heads SET lease_expires_at = {tick} + :ttl_us, lease_boot = {boot}
WHERE job_id = :job_id AND fence = :fence AND lease_token = :lease_token AND :lease_token <> ''
RETURNING job_id;

-- name: expire_leases_of_worker
-- A worker proven dead holds nothing that others must wait for. Locked in id order, as everywhere.
WITH dead AS MATERIALIZED (
    SELECT job_id FROM job_heads WHERE status = 'running' AND lease_owner = :worker ORDER BY job_id {for_update}
)
UPDATE job_heads SET lease_expires_at = 0 WHERE job_id IN (SELECT job_id FROM dead) RETURNING queue;

-- name: list_expired_jobs
-- Running jobs whose lease is over.
SELECT job_id FROM job_heads
WHERE status = 'running' AND (lease_expires_at <= {tick} OR lease_boot <> {boot})
ORDER BY lease_expires_at, job_id LIMIT :limit;

-- name: lock_expired_heads
-- The same as heads, locked: what somebody else is writing to right now is passed over, and found next time if need be.
-- Last, the wall clock.
SELECT {head},
       {now}
FROM job_heads
WHERE status = 'running' AND (lease_expires_at <= {tick} OR lease_boot <> {boot})
ORDER BY lease_expires_at, job_id LIMIT :limit {skip_locked};

-- name: list_lease_owners
-- Everybody who holds a job, by name.
SELECT DISTINCT lease_owner FROM job_heads WHERE status = 'running' ORDER BY lease_owner;

-- name: count_held_jobs
-- How many jobs this worker holds, by leases that are not over.
SELECT CAST(count(*) AS {int}) FROM job_heads
WHERE status = 'running' AND lease_owner = :worker AND lease_expires_at > {tick} AND lease_boot = {boot};

-- name: get_claim_event
-- The grant's own event, by the fence that only it has.
SELECT body FROM events WHERE job_id = :job_id AND fence = :fence AND type = 'job_claimed' ORDER BY seq LIMIT 1;

-- name: start_worker_lease
-- The worker has this lease, whatever row had its name before.
INSERT INTO worker_leases (worker, incarnation, identity, ttl_us, beat)
VALUES (:worker, :incarnation, :identity, :ttl_us, :beat)
ON CONFLICT (worker) DO UPDATE
SET incarnation = excluded.incarnation, identity = excluded.identity, ttl_us = excluded.ttl_us, beat = excluded.beat;

-- name: renew_worker_lease
-- The worker lives. No row has changed: its lease was declared expired, or another process has its name.
UPDATE worker_leases SET beat = :beat WHERE worker = :worker AND incarnation = :incarnation;

-- name: list_worker_leases
-- The leases of all workers.
SELECT worker, incarnation, identity, ttl_us, beat FROM worker_leases;

-- name: lock_worker_lease
-- The lease under which a worker claims; it cannot be declared expired before the claim has been committed.
SELECT incarnation FROM worker_leases WHERE worker = :worker {for_key_share};

-- name: expire_worker_lease
-- The lease is over, if it is still the one that was seen, with the beat that was seen.
DELETE FROM worker_leases
WHERE worker = :worker AND (CAST(:incarnation AS TEXT) IS NULL OR incarnation = :incarnation)
  AND (CAST(:beat AS {int}) IS NULL OR beat = :beat)
RETURNING worker;
