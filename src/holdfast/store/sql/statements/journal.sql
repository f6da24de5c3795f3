-- Journal: the fenced append.
--
-- A writer must hold the lease. A head with a token is running (a CHECK ensures it), so the statements compare only the
-- token: a condition on the status would offer Postgres the index of running jobs, which it chooses while it has no
-- statistics.

-- name: advance_head
-- Move the head by this append; the job stays running. No row changed: `lock_head` finds the reason. RETURNING would
-- cost SQLite half as much again.
UPDATE job_heads
SET head_seq = :head_seq, head_hash = :head_hash, takeovers = takeovers * (1 - :progress)
WHERE job_id = :job_id AND fence = :fence AND lease_token = :lease_token AND :lease_token <> ''
  AND head_seq = :seen_seq AND head_hash = :seen_hash
  AND (CAST(:mail_seen AS {int}) IS NULL OR mail_seq = :mail_seen);

-- name: release_head
-- Move the head by an append with which the job leaves `running`: the same write releases the lease. `in_no_line`: only
-- if the job has no place in a session, where the next job would have to be promoted.
UPDATE job_heads
SET head_seq = :head_seq, head_hash = :head_hash,
    takeovers = (takeovers * (1 - :progress) + :taken_over) * (1 - :anew),
    attempts = (attempts + :failed) * (1 - :anew),
    status = :status, wait_reason = :wait_reason, wake_at = :wake_at,
    ready_at = CASE WHEN :requeues = 1 THEN coalesce(CAST(:ready_at AS {int}), {now}) ELSE ready_at END,
    lease_token = '', lease_owner = '', lease_boot = '', lease_expires_at = 0
WHERE job_id = :job_id AND fence = :fence AND lease_token = :lease_token AND :lease_token <> ''
  AND head_seq = :seen_seq AND head_hash = :seen_hash
  AND (CAST(:mail_seen AS {int}) IS NULL OR mail_seq = :mail_seen)
  AND (CAST(:in_no_line AS {int}) = 0 OR session_slot IS NULL)
RETURNING job_id, namespace, queue, session_id, session_slot;

-- name: write_ruling
-- Write the head of a short hold: next fence, new head, and the state of the ruling.
UPDATE job_heads
SET head_seq = :head_seq, head_hash = :head_hash, fence = :fence,
    takeovers = (takeovers + :taken_over) * (1 - :anew), attempts = (attempts + :failed) * (1 - :anew),
    status = :status, wait_reason = :wait_reason, wake_at = :wake_at,
    ready_at = CASE WHEN :requeues = 1 THEN coalesce(CAST(:ready_at AS {int}), {now}) ELSE ready_at END,
    lease_token = '', lease_owner = '', lease_boot = '', lease_expires_at = 0
WHERE job_id = :job_id;

-- name: move_heads_alike
-- Write the heads of short holds with one event each and equal outcomes. One statement for all of them, because
-- starting and ending a statement takes longer than running it. Their hashes are in one string, in the order of the
-- list.
UPDATE job_heads
SET head_seq = head_seq + 1, fence = fence + 1,
    head_hash = substr(CAST(:hashes AS {bytes}), CAST(32 * listed.nth - 31 AS INTEGER), 32),
    takeovers = (takeovers + :taken_over) * (1 - :anew), attempts = (attempts + :failed) * (1 - :anew),
    status = :status, wait_reason = :wait_reason, wake_at = :wake_at,
    ready_at = CASE WHEN :requeues = 1 THEN coalesce(CAST(:ready_at AS {int}), {now}) ELSE ready_at END,
    lease_token = '', lease_owner = '', lease_boot = '', lease_expires_at = 0
FROM {listed:job_ids} WHERE job_heads.job_id = listed.value;

-- name: insert_equal_events
-- Insert the newest event of each of these jobs, at its head's seq: the same content for all of them.
INSERT INTO events (job_id, seq, type, version, fence, at, body, body_digest, hash)
SELECT h.job_id, h.head_seq, :type, :version, h.fence, :at, :body, :body_digest, h.head_hash
FROM {listed:job_ids} CROSS JOIN job_heads h WHERE h.job_id = listed.value;

-- name: insert_event
-- Insert the event.
INSERT INTO events (job_id, seq, type, version, fence, at, body, body_digest, hash)
VALUES (:job_id, :seq, :type, :version, :fence, :at, :body, :body_digest, :hash);

-- name: has_event
-- A row: the event with this hash is in the journal.
SELECT 1 FROM events WHERE job_id = :job_id AND seq = :seq AND hash = :hash;

-- name: load_journal
-- The events after a seq, in order; a large body comes from its blob, and an erased one is NULL.
SELECT e.seq, e.type, e.version, e.fence, e.at,
       CASE WHEN length(e.body) > 0 THEN e.body
            WHEN e.body IS NULL THEN (SELECT b.body FROM job_heads h JOIN blobs b ON b.namespace = h.namespace AND b.digest = e.body_digest
                  WHERE h.job_id = e.job_id) END,
       e.body_digest, e.hash
FROM events e
WHERE e.job_id = :job_id AND e.seq > :after
ORDER BY e.seq
LIMIT :limit;

-- name: load_journal_ends
-- The first event and the last ones, each as `load_journal` returns it, in no order. (The plus makes SQLite start at
-- the last ones.)
SELECT e.seq, e.type, e.version, e.fence, e.at,
       CASE WHEN length(e.body) > 0 THEN e.body
            WHEN e.body IS NULL THEN (SELECT b.body FROM job_heads h JOIN blobs b ON b.namespace = h.namespace AND b.digest = e.body_digest
                  WHERE h.job_id = e.job_id) END,
       e.body_digest, e.hash
FROM (SELECT * FROM events WHERE job_id = :job_id AND seq = 1
      UNION ALL
      SELECT * FROM events WHERE job_id = :job_id AND +seq > 1
                             AND seq > (SELECT head_seq FROM job_heads WHERE job_id = :job_id) - :last) e;

-- name: find_last_commit
-- The seq of the last checkpoint. Searched from the end: the events after it are read anyway.
SELECT seq FROM events WHERE job_id = :job_id AND type = 'checkpoint_saved' ORDER BY seq DESC LIMIT 1;

-- name: load_journals
-- As `load_journal`, the whole journals of several jobs.
SELECT e.job_id, e.seq, e.type, e.version, e.fence, e.at,
       CASE WHEN length(e.body) > 0 THEN e.body
            WHEN e.body IS NULL THEN (SELECT b.body FROM job_heads h JOIN blobs b ON b.namespace = h.namespace AND b.digest = e.body_digest
                  WHERE h.job_id = e.job_id) END,
       e.body_digest, e.hash
FROM events e
WHERE e.job_id {any:job_ids}
ORDER BY e.job_id, e.seq;

-- name: get_event
-- One event by its seq; a large body comes from its blob.
SELECT e.seq, e.type, e.version, e.fence, e.at,
       CASE WHEN e.body IS NOT NULL THEN e.body
            ELSE (SELECT b.body FROM job_heads h JOIN blobs b ON b.namespace = h.namespace AND b.digest = e.body_digest
                  WHERE h.job_id = e.job_id) END,
       e.body_digest, e.hash
FROM events e WHERE e.job_id = :job_id AND e.seq = :seq;

-- name: remove_timers
-- Remove the timers of a job that has ended.
DELETE FROM timers WHERE job_id = :job_id;

-- name: leave_session
-- Remove the job from its session.
UPDATE job_heads SET session_slot = NULL WHERE job_id = :job_id;

-- name: lock_session_of_job
-- The session of the job, locked; no row: the job has none. A transaction that may end the job locks the session before
-- the head, because promoting the next job locks that job's head after the session.
SELECT s.revision FROM jobs j JOIN sessions s ON s.namespace = j.namespace AND s.session_id = j.session_id
WHERE j.job_id = :job_id {for_update_of_s};

-- name: lock_session
-- The session, locked: jobs join and leave it one at a time.
SELECT revision FROM sessions WHERE namespace = :namespace AND session_id = :session_id {for_update};

-- name: find_live_job
-- The job that has the session's turn.
SELECT job_id FROM job_heads WHERE namespace = :namespace AND session_id = :session_id AND session_slot = 'live';

-- name: find_next_job
-- The job that has queued longest in the session.
SELECT job_id FROM job_heads
WHERE namespace = :namespace AND session_id = :session_id AND session_slot = 'behind'
ORDER BY ready_at, job_id LIMIT 1;

-- name: promote_job
-- Give the job its session's turn; it becomes claimable unless it waits for another reason.
UPDATE job_heads
SET session_slot = 'live',
    status = CASE WHEN wait_reason = 'joined' THEN 'pending' ELSE status END,
    wait_reason = CASE WHEN wait_reason = 'joined' THEN NULL ELSE wait_reason END,
    wake_at = CASE WHEN wait_reason = 'joined' THEN NULL ELSE wake_at END
WHERE job_id = :job_id RETURNING queue;
