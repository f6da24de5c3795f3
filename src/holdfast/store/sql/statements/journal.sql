-- The journal: the one kind of write.
--
-- Who writes must hold the lease. A head with a token runs (a CHECK says so), so the token is all that is asked for; a
-- condition on the status would offer Postgres the index of running jobs, and until it has statistics it takes that one.

-- name: advance_head
-- The head moved on by this append and nothing else has changed. No row changed: see `lock_head` for the reason. Asking
-- for the row back would cost SQLite half as much again.
UPDATE job_heads
SET head_seq = :head_seq, head_hash = :head_hash, takeovers = takeovers * (1 - :progress)
WHERE job_id = :job_id AND fence = :fence AND lease_token = :lease_token AND :lease_token <> ''
  AND head_seq = :seen_seq AND head_hash = :seen_hash
  AND (CAST(:mail_seen AS {int}) IS NULL OR mail_seq = :mail_seen);

-- name: release_head
-- The same, and the job has left `running`: the lease goes back in the same write. `in_no_line`: only if it stands in no
-- session's line, which would have to move up.
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
-- A short hold has written: next fence, new head, and the job is where the ruling leaves it.
UPDATE job_heads
SET head_seq = :head_seq, head_hash = :head_hash, fence = :fence,
    takeovers = (takeovers + :taken_over) * (1 - :anew), attempts = (attempts + :failed) * (1 - :anew),
    status = :status, wait_reason = :wait_reason, wake_at = :wake_at,
    ready_at = CASE WHEN :requeues = 1 THEN coalesce(CAST(:ready_at AS {int}), {now}) ELSE ready_at END,
    lease_token = '', lease_owner = '', lease_boot = '', lease_expires_at = 0
WHERE job_id = :job_id;

-- name: move_heads_alike
-- Short holds have written one fact to each of these jobs, and the same became of all of them. A statement that is run a
-- thousand times takes longer to begin and to end than to run. Their hashes lie in one string, in the order of the list.
UPDATE job_heads
SET head_seq = head_seq + 1, fence = fence + 1,
    head_hash = substr(CAST(:hashes AS {bytes}), CAST(32 * listed.nth - 31 AS INTEGER), 32),
    takeovers = (takeovers + :taken_over) * (1 - :anew), attempts = (attempts + :failed) * (1 - :anew),
    status = :status, wait_reason = :wait_reason, wake_at = :wake_at,
    ready_at = CASE WHEN :requeues = 1 THEN coalesce(CAST(:ready_at AS {int}), {now}) ELSE ready_at END,
    lease_token = '', lease_owner = '', lease_boot = '', lease_expires_at = 0
FROM {listed:job_ids} WHERE job_heads.job_id = listed.value;

-- name: insert_equal_events
-- The newest event of each of these jobs, where its head says: one fact for all of them.
INSERT INTO events (job_id, seq, type, version, fence, at, body, body_digest, hash)
SELECT h.job_id, h.head_seq, :type, :version, h.fence, :at, :body, :body_digest, h.head_hash
FROM {listed:job_ids} CROSS JOIN job_heads h WHERE h.job_id = listed.value;

-- name: insert_event
-- The fact is in the journal.
INSERT INTO events (job_id, seq, type, version, fence, at, body, body_digest, hash)
VALUES (:job_id, :seq, :type, :version, :fence, :at, :body, :body_digest, :hash);

-- name: has_event
-- A row: this very event is in the journal.
SELECT 1 FROM events WHERE job_id = :job_id AND seq = :seq AND hash = :hash;

-- name: load_journal
-- The facts after a place, in order; a large body comes from its blob, and one that was erased is none.
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
-- The first fact and the last ones, each as `load_journal` gives it, in no order. (The plus: SQLite is to begin at the last.)
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
-- The place of the newest commit of state. Looked for from the end: what lies behind it is read anyway.
SELECT seq FROM events WHERE job_id = :job_id AND type = 'checkpoint_saved' ORDER BY seq DESC LIMIT 1;

-- name: load_journals
-- The same of several jobs, from their beginnings.
SELECT e.job_id, e.seq, e.type, e.version, e.fence, e.at,
       CASE WHEN length(e.body) > 0 THEN e.body
            WHEN e.body IS NULL THEN (SELECT b.body FROM job_heads h JOIN blobs b ON b.namespace = h.namespace AND b.digest = e.body_digest
                  WHERE h.job_id = e.job_id) END,
       e.body_digest, e.hash
FROM events e
WHERE e.job_id {any:job_ids}
ORDER BY e.job_id, e.seq;

-- name: get_event
-- One fact, by its place; a large body comes from its blob.
SELECT e.seq, e.type, e.version, e.fence, e.at,
       CASE WHEN e.body IS NOT NULL THEN e.body
            ELSE (SELECT b.body FROM job_heads h JOIN blobs b ON b.namespace = h.namespace AND b.digest = e.body_digest
                  WHERE h.job_id = e.job_id) END,
       e.body_digest, e.hash
FROM events e WHERE e.job_id = :job_id AND e.seq = :seq;

-- name: remove_timers
-- A job that is over waits for nothing.
DELETE FROM timers WHERE job_id = :job_id;

-- name: leave_session
-- The job has no place in its session's line any more.
UPDATE job_heads SET session_slot = NULL WHERE job_id = :job_id;

-- name: lock_session_of_job
-- The line of the job's session, held; no row: the job is in none. Whoever may leave the line takes it before the head,
-- because calling up the next one takes that head after the line.
SELECT s.revision FROM jobs j JOIN sessions s ON s.namespace = j.namespace AND s.session_id = j.session_id
WHERE j.job_id = :job_id {for_update_of_s};

-- name: lock_session
-- The session's line, held: whoever joins it and whoever leaves it take turns.
SELECT revision FROM sessions WHERE namespace = :namespace AND session_id = :session_id {for_update};

-- name: find_live_job
-- The job that owns the session's turn.
SELECT job_id FROM job_heads WHERE namespace = :namespace AND session_id = :session_id AND session_slot = 'live';

-- name: find_next_job
-- The job that has waited longest behind a turn that is over.
SELECT job_id FROM job_heads
WHERE namespace = :namespace AND session_id = :session_id AND session_slot = 'behind'
ORDER BY ready_at, job_id LIMIT 1;

-- name: promote_job
-- The job owns its session's turn, and can be claimed unless something else holds it as well.
UPDATE job_heads
SET session_slot = 'live',
    status = CASE WHEN wait_reason = 'joined' THEN 'pending' ELSE status END,
    wait_reason = CASE WHEN wait_reason = 'joined' THEN NULL ELSE wait_reason END,
    wake_at = CASE WHEN wait_reason = 'joined' THEN NULL ELSE wake_at END
WHERE job_id = :job_id RETURNING queue;
