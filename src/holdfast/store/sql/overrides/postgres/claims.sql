-- why: a claim is the one write that every worker and agent makes before it does anything, and with BEGIN, a look for the
-- token, a choice, a grant and COMMIT it waited five times for the server. Here it waits once, and holds its rows only so
-- long. A job that nobody had before comes with its first event, and can be driven without another question: there is no
-- other event that this statement might not see yet. What it takes is the hash of the claim's event, made by the server as
-- `model.chain` makes it: the contract of claims reads every chain, on every store.

-- A worker claims under its own lease, or not at all: the lease is locked as the key of a foreign key would be, which a beat
-- does not mind and an expiry waits for.

-- name: claim_jobs_by_priority
-- The jobs that are granted now, chosen as `select_jobs_by_priority` says, each with its event. None: there are none, or this
-- token was granted some before (`list_heads_by_token`).
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
-- The same with the oldest first.
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
