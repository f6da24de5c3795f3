-- why: every worker and agent claims before it does anything else, and with BEGIN, a lookup of the token, a selection,
-- a grant and COMMIT a claim was five round trips. Here it is one, and its rows are locked only for that long. A job
-- that was never claimed before comes with its first event, so that it can be driven without another query: this
-- statement cannot miss an event of it. The server computes the hash of the claim's event as `model.hash_chain` does;
-- the conformance tests of claims check every chain, on every store.

-- A worker claims only under its worker lease. The lease is locked FOR KEY SHARE, as the target of a foreign key is: a beat
-- does not wait for this lock, an expiry does.

-- name: claim_jobs_by_priority
-- Claim jobs, selected as by `select_jobs_by_priority`, each with its event; returns the grants. No rows: no job is
-- claimable, or this token already has grants (`list_heads_by_token`).
WITH known AS MATERIALIZED (
    SELECT 1 FROM job_heads WHERE lease_token = :token AND status = 'running' AND lease_owner = :worker
), lease AS MATERIALIZED (
    SELECT 1 FROM worker_leases WHERE worker = :worker AND incarnation = :incarnation {for_key_share}
), room AS MATERIALIZED (
    SELECT CASE WHEN CAST(:incarnation AS text) IS NOT NULL AND NOT EXISTS (SELECT 1 FROM lease) THEN 0
                WHEN CAST(:most AS bigint) IS NULL THEN CAST(:limit AS bigint)
                ELSE greatest(0, least(:limit, :most - (
                    SELECT count(*) FROM job_heads
                    WHERE status = 'running' AND lease_owner = :worker AND lease_expires_at > {tick} AND lease_boot = {boot}
                ))) END AS left_over
), ready AS MATERIALIZED (
    SELECT job_id, priority, ready_at, 0 AS takeover FROM job_heads
    WHERE status = 'pending' AND NOT ready_at > {now}
      AND (session_slot IS NULL OR session_slot <> 'behind')
      AND queue {any:queues} AND (:any_kind = 1 OR kind {any:kinds})
      AND (CAST(:namespace AS TEXT) IS NULL OR namespace = :namespace)
      AND takeovers < :suspect_at AND NOT EXISTS (SELECT 1 FROM known)
    ORDER BY priority DESC, ready_at, job_id LIMIT (SELECT left_over FROM room) {skip_locked}
), due AS MATERIALIZED (
    SELECT job_id, priority, ready_at, 0 AS takeover FROM job_heads
    WHERE status = 'waiting' AND wake_at IS NOT NULL AND wake_at <= {now}
      AND wait_reason NOT IN ('drift', 'stalled', 'dead_letter', 'restore_review', 'joined')
      AND (session_slot IS NULL OR session_slot <> 'behind')
      AND queue {any:queues} AND (:any_kind = 1 OR kind {any:kinds})
      AND (CAST(:namespace AS TEXT) IS NULL OR namespace = :namespace)
      AND takeovers < :suspect_at AND NOT EXISTS (SELECT 1 FROM known)
    ORDER BY priority DESC, ready_at, job_id LIMIT (SELECT left_over FROM room) {skip_locked}
), lost AS MATERIALIZED (
    SELECT job_id, priority, ready_at, 1 AS takeover FROM job_heads
    WHERE status = 'running' AND (lease_expires_at <= {tick} OR lease_boot <> {boot})
      AND queue {any:queues} AND (:any_kind = 1 OR kind {any:kinds})
      AND (CAST(:namespace AS TEXT) IS NULL OR namespace = :namespace)
      AND takeovers + 1 < :suspect_at AND NOT EXISTS (SELECT 1 FROM known)
    ORDER BY priority DESC, ready_at, job_id LIMIT (SELECT left_over FROM room) {skip_locked}
), chosen AS MATERIALIZED (
    SELECT * FROM (SELECT * FROM ready UNION ALL SELECT * FROM due UNION ALL SELECT * FROM lost) AS claimable
    ORDER BY priority DESC, ready_at, job_id LIMIT (SELECT left_over FROM room)
), granted AS (
    UPDATE job_heads h
    SET head_seq = h.head_seq + 1, fence = h.fence + 1,
        head_hash = sha256(
            h.head_hash || CASE c.takeover WHEN 1 THEN CAST(:lost_digest AS bytea) ELSE CAST(:body_digest AS bytea) END
            || convert_to(
                h.job_id || '/' || (h.head_seq + 1) || '/' || CAST(:type AS text) || '/' || CAST(:version AS bigint) || '/'
                || (h.fence + 1) || '/' || {now}, 'UTF8'
            )
        ),
        status = 'running', wait_reason = NULL, wake_at = NULL, lease_token = :token, lease_owner = :worker,
        lease_boot = {boot}, lease_expires_at = {tick} + :ttl_us, takeovers = h.takeovers + c.takeover
    FROM chosen c WHERE h.job_id = c.job_id
    RETURNING h.job_id, h.namespace, h.kind, h.queue, h.session_id, h.fence, h.lease_token, h.head_seq, h.head_hash,
              h.mail_seq, h.attempts, h.takeovers, CAST(c.takeover AS bigint) AS takeover, h.lease_expires_at, h.priority,
              h.ready_at
), written AS (
    INSERT INTO events (job_id, seq, type, version, fence, at, body, body_digest, hash)
    SELECT job_id, head_seq, :type, :version, fence, {now},
           CASE takeover WHEN 1 THEN CAST(:lost_body AS bytea) ELSE CAST(:body AS bytea) END,
           CASE takeover WHEN 1 THEN CAST(:lost_digest AS bytea) ELSE CAST(:body_digest AS bytea) END, head_hash
    FROM granted
)
SELECT g.*, {now}, e.*
FROM granted g LEFT JOIN LATERAL (
    SELECT c.type, c.version, c.fence, c.at,
           CASE WHEN length(c.body) > 0 THEN c.body
                WHEN c.body IS NULL THEN (SELECT b.body FROM blobs b WHERE b.namespace = g.namespace AND b.digest = c.body_digest)
           END, c.body_digest, c.hash
    FROM events c WHERE c.job_id = g.job_id AND c.seq = 1 AND g.head_seq = 2 LIMIT 1
) AS e ON 1 = 1;

-- name: claim_jobs_by_age
-- As `claim_jobs_by_priority`, with the oldest first.
WITH known AS MATERIALIZED (
    SELECT 1 FROM job_heads WHERE lease_token = :token AND status = 'running' AND lease_owner = :worker
), lease AS MATERIALIZED (
    SELECT 1 FROM worker_leases WHERE worker = :worker AND incarnation = :incarnation {for_key_share}
), room AS MATERIALIZED (
    SELECT CASE WHEN CAST(:incarnation AS text) IS NOT NULL AND NOT EXISTS (SELECT 1 FROM lease) THEN 0
                WHEN CAST(:most AS bigint) IS NULL THEN CAST(:limit AS bigint)
                ELSE greatest(0, least(:limit, :most - (
                    SELECT count(*) FROM job_heads
                    WHERE status = 'running' AND lease_owner = :worker AND lease_expires_at > {tick} AND lease_boot = {boot}
                ))) END AS left_over
), ready AS MATERIALIZED (
    SELECT job_id, priority, ready_at, 0 AS takeover FROM job_heads
    WHERE status = 'pending' AND ready_at <= {now}
      AND (session_slot IS NULL OR session_slot <> 'behind')
      AND queue {any:queues} AND (:any_kind = 1 OR kind {any:kinds})
      AND (CAST(:namespace AS TEXT) IS NULL OR namespace = :namespace)
      AND takeovers < :suspect_at AND NOT EXISTS (SELECT 1 FROM known)
    ORDER BY ready_at, job_id LIMIT (SELECT left_over FROM room) {skip_locked}
), due AS MATERIALIZED (
    SELECT job_id, priority, ready_at, 0 AS takeover FROM job_heads
    WHERE status = 'waiting' AND wake_at IS NOT NULL AND wake_at <= {now}
      AND wait_reason NOT IN ('drift', 'stalled', 'dead_letter', 'restore_review', 'joined')
      AND (session_slot IS NULL OR session_slot <> 'behind')
      AND queue {any:queues} AND (:any_kind = 1 OR kind {any:kinds})
      AND (CAST(:namespace AS TEXT) IS NULL OR namespace = :namespace)
      AND takeovers < :suspect_at AND NOT EXISTS (SELECT 1 FROM known)
    ORDER BY ready_at, job_id LIMIT (SELECT left_over FROM room) {skip_locked}
), lost AS MATERIALIZED (
    SELECT job_id, priority, ready_at, 1 AS takeover FROM job_heads
    WHERE status = 'running' AND (lease_expires_at <= {tick} OR lease_boot <> {boot})
      AND queue {any:queues} AND (:any_kind = 1 OR kind {any:kinds})
      AND (CAST(:namespace AS TEXT) IS NULL OR namespace = :namespace)
      AND takeovers + 1 < :suspect_at AND NOT EXISTS (SELECT 1 FROM known)
    ORDER BY ready_at, job_id LIMIT (SELECT left_over FROM room) {skip_locked}
), chosen AS MATERIALIZED (
    SELECT * FROM (SELECT * FROM ready UNION ALL SELECT * FROM due UNION ALL SELECT * FROM lost) AS claimable
    ORDER BY ready_at, job_id LIMIT (SELECT left_over FROM room)
), granted AS (
    UPDATE job_heads h
    SET head_seq = h.head_seq + 1, fence = h.fence + 1,
        head_hash = sha256(
            h.head_hash || CASE c.takeover WHEN 1 THEN CAST(:lost_digest AS bytea) ELSE CAST(:body_digest AS bytea) END
            || convert_to(
                h.job_id || '/' || (h.head_seq + 1) || '/' || CAST(:type AS text) || '/' || CAST(:version AS bigint) || '/'
                || (h.fence + 1) || '/' || {now}, 'UTF8'
            )
        ),
        status = 'running', wait_reason = NULL, wake_at = NULL, lease_token = :token, lease_owner = :worker,
        lease_boot = {boot}, lease_expires_at = {tick} + :ttl_us, takeovers = h.takeovers + c.takeover
    FROM chosen c WHERE h.job_id = c.job_id
    RETURNING h.job_id, h.namespace, h.kind, h.queue, h.session_id, h.fence, h.lease_token, h.head_seq, h.head_hash,
              h.mail_seq, h.attempts, h.takeovers, CAST(c.takeover AS bigint) AS takeover, h.lease_expires_at, h.priority,
              h.ready_at
), written AS (
    INSERT INTO events (job_id, seq, type, version, fence, at, body, body_digest, hash)
    SELECT job_id, head_seq, :type, :version, fence, {now},
           CASE takeover WHEN 1 THEN CAST(:lost_body AS bytea) ELSE CAST(:body AS bytea) END,
           CASE takeover WHEN 1 THEN CAST(:lost_digest AS bytea) ELSE CAST(:body_digest AS bytea) END, head_hash
    FROM granted
)
SELECT g.*, {now}, e.*
FROM granted g LEFT JOIN LATERAL (
    SELECT c.type, c.version, c.fence, c.at,
           CASE WHEN length(c.body) > 0 THEN c.body
                WHEN c.body IS NULL THEN (SELECT b.body FROM blobs b WHERE b.namespace = g.namespace AND b.digest = c.body_digest)
           END, c.body_digest, c.hash
    FROM events c WHERE c.job_id = g.job_id AND c.seq = 1 AND g.head_seq = 2 LIMIT 1
) AS e ON 1 = 1;

-- name: renew_and_list_worker_leases
-- `renew_worker_lease` and `list_worker_leases` in one round trip. The worker's own row is as it was before the beat.
WITH mine AS (
    UPDATE worker_leases SET beat = :beat WHERE worker = :worker AND incarnation = :incarnation RETURNING worker
)
SELECT w.worker, w.incarnation, w.identity, w.ttl_us, w.beat FROM worker_leases w;
