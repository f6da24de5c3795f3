-- Restore: a copy of a backup becomes a store of a new epoch.

-- name: set_epoch
-- Set the epoch: every fence of an earlier one is smaller.
UPDATE store_state SET epoch = :epoch;

-- name: release_all_batches
-- Release all claims on batches; the fences stay, so that an old claim is never mistaken for a new one.
UPDATE inbox_batches
SET claim_id = NULL, claim_owner = NULL, claim_token = NULL, claim_boot = NULL, claimed_at = NULL,
    claim_expires_at = NULL
WHERE claim_token IS NOT NULL;

-- name: remove_all_workers
-- Remove all presences.
DELETE FROM worker_presences;

-- name: remove_all_worker_leases
-- Remove all worker leases.
DELETE FROM worker_leases;

-- name: list_unfinished_heads
-- The jobs that had not ended when the backup was made.
SELECT {head} FROM job_heads WHERE status IN ('pending', 'running', 'waiting') ORDER BY job_id;

-- name: hold_for_review
-- Make the job wait for a person, without a lease.
UPDATE job_heads
SET head_seq = :head_seq, head_hash = :head_hash, fence = :fence, status = 'waiting', wait_reason = 'restore_review',
    wake_at = NULL, lease_token = '', lease_owner = '', lease_boot = '', lease_expires_at = 0
WHERE job_id = :job_id;

-- name: pause_all_schedules
-- Pause all schedules. A row for each that was not paused.
UPDATE schedules SET paused = 1 WHERE paused = 0 RETURNING schedule_id;

-- name: count_heads
-- How many jobs there are.
SELECT CAST(count(*) AS {int}) FROM job_heads;
