-- Workers that say that they are there.

-- name: record_heartbeat
-- The worker was there just now. Another process of its name starts anew.
INSERT INTO worker_presences (worker, identity, host, pid, offer, draining, started_at, seen_at)
VALUES (:worker, :identity, :host, :pid, :offer, :draining, {now}, {now})
ON CONFLICT (worker) DO UPDATE
SET started_at = CASE WHEN worker_presences.identity = excluded.identity
                      THEN worker_presences.started_at ELSE excluded.started_at END,
    identity = excluded.identity, host = excluded.host, pid = excluded.pid, offer = excluded.offer,
    drain_asked_at = CASE WHEN worker_presences.identity = excluded.identity
                          THEN worker_presences.drain_asked_at END,
    draining = excluded.draining, seen_at = excluded.seen_at;

-- name: remove_silent_workers
-- Whoever was silent for so long is not listed any more.
DELETE FROM worker_presences WHERE seen_at <= {now} - CAST(:silent_us AS {int});

-- name: list_worker_identities
-- Everybody who is listed, which process it is, and whether it shall drain.
SELECT worker, identity, drain_asked_at FROM worker_presences ORDER BY worker;

-- name: list_workers
-- A page of workers by name, with the jobs that are in the name of each, and the time. No name is empty, so the first
-- page starts behind it.
SELECT p.worker, p.identity, p.host, p.pid, p.offer, p.draining, p.started_at, p.seen_at, p.drain_asked_at,
       coalesce(h.holds, 0), {now}
FROM worker_presences p
LEFT JOIN (SELECT lease_owner, CAST(count(*) AS {int}) AS holds FROM job_heads WHERE status = 'running'
           GROUP BY lease_owner) AS h ON h.lease_owner = p.worker
WHERE p.worker > :after AND p.seen_at > {now} - CAST(:silent_us AS {int})
ORDER BY p.worker LIMIT :limit;

-- name: find_worker
-- One worker that is listed, with the jobs that are in its name, and the time.
SELECT p.worker, p.identity, p.host, p.pid, p.offer, p.draining, p.started_at, p.seen_at, p.drain_asked_at,
       (SELECT CAST(count(*) AS {int}) FROM job_heads WHERE status = 'running' AND lease_owner = p.worker), {now}
FROM worker_presences p WHERE p.worker = :worker AND p.seen_at > {now} - CAST(:silent_us AS {int});

-- name: request_drain
-- The worker shall drain. A row: nobody had asked before.
UPDATE worker_presences SET drain_asked_at = {now} WHERE worker = :worker AND drain_asked_at IS NULL RETURNING worker;

-- name: remove_worker
-- This process is not listed any more. A row: it was.
DELETE FROM worker_presences WHERE worker = :worker AND identity = :identity RETURNING worker;
