-- why: one round trip for many jobs. A statement takes arrays, locks the heads in id order, moves those whose
-- conditions hold, and writes events for exactly these. SQLite has no round trips to save and runs them one by one.
--
-- The planner knows the length of an array only in the first few calls, and then estimates ten. So the plans must be
-- good for any length: every array row finds its head by id. A head with a token is running (a CHECK ensures it). There
-- is no condition on the status, because it would offer the index of all running jobs, and each array row would be
-- compared with all of them.

-- name: append_event
-- Append one event of one job, and move its head. No row: `lock_head` finds the reason.
WITH moved AS (
    UPDATE job_heads
    SET head_seq = :head_seq, head_hash = :head_hash, takeovers = takeovers * (1 - CAST(:progress AS bigint))
    WHERE job_id = :job_id AND fence = :fence AND lease_token = :lease_token AND :lease_token <> ''
      AND head_seq = :seen_seq AND head_hash = :seen_hash
      AND (CAST(:mail_seen AS bigint) IS NULL OR mail_seq = :mail_seen)
    RETURNING job_id
)
INSERT INTO events (job_id, seq, type, version, fence, at, body, body_digest, hash)
SELECT job_id, :seq, :type, :version, :fence, :at, :body, :body_digest, :hash FROM moved
RETURNING job_id;

-- name: append_events
-- Append one event each; returns the jobs that were moved. All of them stay running.
--
-- The rows come in id order. A plan without sequential scans (see `enable_seqscan` in `open`) visits the heads in that
-- order, whichever join it uses: so there are no deadlocks, and no separate statement locks the rows first. Most
-- columns are array literals, and the three hashes of every row are in one string, because the driver takes longer to
-- convert an element of a list than to send it.
WITH moved AS (
    UPDATE job_heads h
    SET head_seq = i.seen_seq + 1, head_hash = substr(CAST(:hashes AS bytea), CAST(96 * i.nth - 31 AS int), 32),
        takeovers = h.takeovers * (1 - i.progress)
    FROM unnest(
        CAST(CAST(:each_job_id AS text) AS text[]), CAST(CAST(:each_fence AS text) AS bigint[]),
        CAST(CAST(:each_lease_token AS text) AS text[]), CAST(CAST(:each_seen_seq AS text) AS bigint[]),
        CAST(CAST(:each_mail_seen AS text) AS bigint[]), CAST(CAST(:each_progress AS text) AS bigint[]),
        CAST(CAST(:each_type AS text) AS text[]), CAST(CAST(:each_version AS text) AS bigint[]),
        CAST(CAST(:each_at AS text) AS bigint[]), CAST(:each_body AS bytea[])
    ) WITH ORDINALITY AS i (job_id, fence, lease_token, seen_seq, mail_seen, progress, type, version, at, body, nth)
    WHERE h.job_id = i.job_id AND h.fence = i.fence AND h.lease_token = i.lease_token AND i.lease_token <> ''
      AND h.head_seq = i.seen_seq AND h.head_hash = substr(CAST(:hashes AS bytea), CAST(96 * i.nth - 95 AS int), 32)
      AND (i.mail_seen IS NULL OR h.mail_seq = i.mail_seen)
    RETURNING i.*, h.head_hash
)
INSERT INTO events (job_id, seq, type, version, fence, at, body, body_digest, hash)
SELECT job_id, seen_seq + 1, type, version, fence, at, body,
       substr(CAST(:hashes AS bytea), CAST(96 * nth - 63 AS int), 32), head_hash
FROM moved
RETURNING job_id;

-- name: append_events_and_moves
-- Append any number of events each; some jobs leave `running`. Returns the jobs that were moved, and their new state. A
-- session's job that ends is left to the single append, which promotes the next job. Columns are literals here, too.
-- One string holds two hashes of every head (before and after), another one two hashes of every event (of its body, and
-- its own). An event refers to its append by position.
WITH locked AS MATERIALIZED (
    SELECT i.*, substr(CAST(:hashes AS bytea), CAST(64 * i.nth - 63 AS int), 32) AS seen_hash,
           substr(CAST(:hashes AS bytea), CAST(64 * i.nth - 31 AS int), 32) AS head_hash
    FROM unnest(
        CAST(CAST(:each_job_id AS text) AS text[]), CAST(CAST(:each_fence AS text) AS bigint[]),
        CAST(CAST(:each_lease_token AS text) AS text[]), CAST(CAST(:each_seen_seq AS text) AS bigint[]),
        CAST(CAST(:each_head_seq AS text) AS bigint[]),
        CAST(CAST(:each_mail_seen AS text) AS bigint[]), CAST(CAST(:each_progress AS text) AS bigint[]),
        CAST(CAST(:each_status AS text) AS text[]), CAST(CAST(:each_wait_reason AS text) AS text[]),
        CAST(CAST(:each_wake_at AS text) AS bigint[]), CAST(CAST(:each_ready_at AS text) AS bigint[]),
        CAST(CAST(:each_failed AS text) AS bigint[]), CAST(CAST(:each_anew AS text) AS bigint[]),
        CAST(CAST(:each_taken_over AS text) AS bigint[]), CAST(CAST(:each_over AS text) AS bigint[])
    ) WITH ORDINALITY AS i (job_id, fence, lease_token, seen_seq, head_seq, mail_seen, progress, status,
                            wait_reason, wake_at, ready_at, failed, anew, taken_over, over, nth)
    JOIN job_heads h ON h.job_id = i.job_id ORDER BY h.job_id FOR NO KEY UPDATE OF h
), moved AS (
    UPDATE job_heads h
    SET head_seq = i.head_seq, head_hash = i.head_hash,
        takeovers = (h.takeovers * (1 - i.progress) + i.taken_over) * (1 - i.anew),
        attempts = (h.attempts + i.failed) * (1 - i.anew),
        status = coalesce(i.status, h.status), wait_reason = i.wait_reason, wake_at = i.wake_at,
        ready_at = CASE WHEN i.status = 'pending' THEN coalesce(i.ready_at, {now}) ELSE h.ready_at END,
        lease_token = CASE WHEN i.status IS NULL THEN h.lease_token ELSE '' END,
        lease_owner = CASE WHEN i.status IS NULL THEN h.lease_owner ELSE '' END,
        lease_boot = CASE WHEN i.status IS NULL THEN h.lease_boot ELSE '' END,
        lease_expires_at = CASE WHEN i.status IS NULL THEN h.lease_expires_at ELSE 0 END
    FROM locked i
    WHERE h.job_id = i.job_id AND h.fence = i.fence AND h.lease_token = i.lease_token AND i.lease_token <> ''
      AND h.head_seq = i.seen_seq AND h.head_hash = i.seen_hash
      AND (i.mail_seen IS NULL OR h.mail_seq = i.mail_seen)
      AND (i.over = 0 OR h.session_slot IS NULL)
    RETURNING h.job_id, h.queue, i.status, i.over, i.fence, i.nth
), written AS (
    INSERT INTO events (job_id, seq, type, version, fence, at, body, body_digest, hash)
    SELECT m.job_id, e.seq, e.type, e.version, m.fence, e.at, e.body,
           substr(CAST(:event_hashes AS bytea), CAST(64 * e.nth - 63 AS int), 32),
           substr(CAST(:event_hashes AS bytea), CAST(64 * e.nth - 31 AS int), 32)
    FROM unnest(
        CAST(CAST(:event_whose AS text) AS bigint[]), CAST(CAST(:event_seq AS text) AS bigint[]),
        CAST(CAST(:event_type AS text) AS text[]), CAST(CAST(:event_version AS text) AS bigint[]),
        CAST(CAST(:event_at AS text) AS bigint[]), CAST(:event_body AS bytea[])
    ) WITH ORDINALITY AS e (whose, seq, type, version, at, body, nth)
    JOIN moved m ON m.nth = e.whose
), quiet AS (
    DELETE FROM timers t USING moved m WHERE t.job_id = m.job_id AND m.over = 1
)
SELECT job_id, queue, status, over FROM moved;

-- name: submit_jobs
-- Insert the jobs that are new, each with its head and its first event, which the server hashes as `model.hash_chain`
-- does (as it does for claims): the submitter waits for one round trip. No rows, if more checks are needed: the
-- namespace does not exist, one of its queues has limits (unless the jobs are admitted already), or the first id
-- belongs to a job that exists or was removed.
WITH ground AS MATERIALIZED (
    SELECT s.epoch * CAST(:fences AS bigint) AS fence
    FROM store_state s, namespaces n
    WHERE n.namespace = :namespace
      AND (CAST(:admitted AS bigint) = 1 OR NOT EXISTS (SELECT 1 FROM queue_limits q WHERE q.namespace = n.namespace))
      AND NOT EXISTS (SELECT 1 FROM jobs j WHERE j.job_id = :job_id)
      AND NOT EXISTS (SELECT 1 FROM tombstones t WHERE t.job_id = :job_id AND t.how = 'remove')
), input AS MATERIALIZED (
    SELECT i.*, CAST(:namespace AS text) AS namespace, {now} AS created_at, g.fence, sha256(
               CAST(:genesis AS bytea) || i.body_digest || convert_to(
                   i.job_id || '/1/' || CAST(:type AS text) || '/' || CAST(:version AS bigint) || '/' || g.fence || '/' || {now},
                   'UTF8'
               )
           ) AS hash
    FROM unnest(
        {job_arrays},
        CAST(:each_ready_at AS bigint[]), CAST(:each_body AS bytea[]), CAST(:each_body_digest AS bytea[])
    ) AS i ({job_array_names}, ready_at, body, body_digest), ground g
), made AS (
    INSERT INTO jobs ({job}) SELECT {job} FROM input
    ON CONFLICT DO NOTHING
    RETURNING job_id
), headed AS (
    INSERT INTO job_heads ({head})
    SELECT i.job_id, i.namespace, i.queue, i.kind, i.priority, 'pending', NULL, NULL,
           CASE WHEN i.ready_at = 0 THEN {now} ELSE i.ready_at END, NULL, NULL, 1, i.hash, i.fence, '', '', '', 0, 0, 0, 0
    FROM input i JOIN made m ON m.job_id = i.job_id
), written AS (
    INSERT INTO events (job_id, seq, type, version, fence, at, body, body_digest, hash)
    SELECT i.job_id, 1, CAST(:type AS text), CAST(:version AS bigint), i.fence, {now}, i.body, i.body_digest, i.hash
    FROM input i JOIN made m ON m.job_id = i.job_id
)
SELECT job_id FROM made;

-- name: grant_leases
-- Grant leases on the chosen and locked heads, each with its event.
WITH input AS MATERIALIZED (
    SELECT * FROM unnest(
        CAST(:job_ids AS text[]), CAST(:head_seqs AS bigint[]), CAST(:head_hashes AS bytea[]), CAST(:fences AS bigint[]),
        CAST(:takeovers AS bigint[]), CAST(:ats AS bigint[]), CAST(:bodies AS bytea[]), CAST(:body_digests AS bytea[])
    ) AS i (job_id, head_seq, head_hash, fence, takeovers, at, body, body_digest)
), written AS (
    INSERT INTO events (job_id, seq, type, version, fence, at, body, body_digest, hash)
    SELECT job_id, head_seq, CAST(:type AS text), CAST(:version AS bigint), fence, at, body, body_digest, head_hash FROM input
)
UPDATE job_heads h
SET head_seq = i.head_seq, head_hash = i.head_hash, fence = i.fence, status = 'running', wait_reason = NULL,
    wake_at = NULL, lease_token = :lease_token, lease_owner = :lease_owner, lease_boot = {boot},
    lease_expires_at = {tick} + :ttl_us, takeovers = i.takeovers
FROM input i WHERE h.job_id = i.job_id
RETURNING h.job_id, h.lease_expires_at;

-- name: renew_leases
-- Renew these leases; returns the ids of the jobs that are still held.
WITH locked AS MATERIALIZED (
    SELECT i.* FROM unnest(CAST(:job_ids AS text[]), CAST(:fences AS bigint[]), CAST(:lease_tokens AS text[]))
        AS i (job_id, fence, lease_token)
    JOIN job_heads h ON h.job_id = i.job_id ORDER BY h.job_id FOR UPDATE OF h
)
UPDATE job_heads h SET lease_expires_at = {tick} + :ttl_us, lease_boot = {boot}
FROM locked i
WHERE h.job_id = i.job_id AND h.fence = i.fence AND h.lease_token = i.lease_token AND i.lease_token <> ''
RETURNING h.job_id;

-- name: write_equal_rulings
-- Write short holds with one event each on the locked heads. Distinct outcomes and events come once; each job refers to
-- its own by number.
WITH moved AS (
    UPDATE job_heads h
    SET head_seq = h.head_seq + 1, head_hash = substr(CAST(:hashes AS bytea), CAST(32 * i.nth - 31 AS int), 32),
        fence = h.fence + 1,
        attempts = (h.attempts + (CAST(:failed AS bigint[]))[i.outcome]) * (1 - (CAST(:anew AS bigint[]))[i.outcome]),
        takeovers = (h.takeovers + (CAST(:taken_over AS bigint[]))[i.outcome]) * (1 - (CAST(:anew AS bigint[]))[i.outcome]),
        status = (CAST(:status AS text[]))[i.outcome], wait_reason = (CAST(:wait_reason AS text[]))[i.outcome],
        wake_at = (CAST(:wake_at AS bigint[]))[i.outcome],
        ready_at = CASE WHEN (CAST(:requeues AS bigint[]))[i.outcome] = 1
                        THEN coalesce((CAST(:ready_at AS bigint[]))[i.outcome], {now}) ELSE h.ready_at END,
        lease_token = '', lease_owner = '', lease_boot = '', lease_expires_at = 0
    FROM unnest(
        CAST(CAST(:each_job_id AS text) AS text[]), CAST(CAST(:each_outcome AS text) AS int[]),
        CAST(CAST(:each_fact AS text) AS int[])
    ) WITH ORDINALITY AS i (job_id, outcome, fact, nth)
    WHERE h.job_id = i.job_id
    RETURNING h.job_id, h.head_seq, h.fence, h.head_hash, i.fact
)
INSERT INTO events (job_id, seq, type, version, fence, at, body, body_digest, hash)
SELECT job_id, head_seq, (CAST(:type AS text[]))[fact], (CAST(:version AS bigint[]))[fact], fence, CAST(:at AS bigint),
       (CAST(:body AS bytea[]))[fact], (CAST(:body_digest AS bytea[]))[fact], head_hash
FROM moved;

-- name: write_rulings
-- Write short holds on the locked heads, each with its events.
WITH written AS (
    INSERT INTO events (job_id, seq, type, version, fence, at, body, body_digest, hash)
    SELECT * FROM unnest(
        CAST(:event_job_id AS text[]), CAST(:event_seq AS bigint[]), CAST(:event_type AS text[]), CAST(:event_version AS bigint[]),
        CAST(:event_fence AS bigint[]), CAST(:event_at AS bigint[]), CAST(:event_body AS bytea[]),
        CAST(:event_body_digest AS bytea[]), CAST(:event_hash AS bytea[])
    )
)
UPDATE job_heads h
SET head_seq = i.head_seq, head_hash = i.head_hash, fence = i.fence, attempts = (h.attempts + i.failed) * (1 - i.anew),
    takeovers = (h.takeovers + i.taken_over) * (1 - i.anew), status = i.status, wait_reason = i.wait_reason, wake_at = i.wake_at,
    ready_at = CASE WHEN i.requeues = 1 THEN coalesce(i.ready_at, {now}) ELSE h.ready_at END,
    lease_token = '', lease_owner = '', lease_boot = '', lease_expires_at = 0
FROM unnest(
    CAST(:each_job_id AS text[]), CAST(:each_head_seq AS bigint[]), CAST(:each_head_hash AS bytea[]),
    CAST(:each_fence AS bigint[]), CAST(:each_failed AS bigint[]), CAST(:each_anew AS bigint[]), CAST(:each_taken_over AS bigint[]),
    CAST(:each_status AS text[]), CAST(:each_wait_reason AS text[]), CAST(:each_wake_at AS bigint[]),
    CAST(:each_requeues AS bigint[]), CAST(:each_ready_at AS bigint[])
) AS i (job_id, head_seq, head_hash, fence, failed, anew, taken_over, status, wait_reason, wake_at, requeues, ready_at)
WHERE h.job_id = i.job_id;
