-- Worker presences.

-- name: record_heartbeat
-- Record a heartbeat of the worker. Another process of the same name replaces it, without its drain request.
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
-- Remove the workers that were silent for so long.
DELETE FROM worker_presences WHERE seen_at <= {now} - CAST(:silent_us AS {int});

-- name: list_worker_identities
-- Every listed worker, the identity of its process, and when it was asked to drain.
SELECT worker, identity, drain_asked_at FROM worker_presences ORDER BY worker;

-- name: list_workers
-- A page of workers by name, each with the number of jobs that it holds, and the time. No name is empty, so the first
-- page starts after the empty one.
SELECT p.worker, p.identity, p.host, p.pid, p.offer, p.draining, p.started_at, p.seen_at, p.drain_asked_at,
       coalesce(h.holds, 0), {now}
FROM worker_presences p
LEFT JOIN (SELECT lease_owner, CAST(count(*) AS {int}) AS holds FROM job_heads WHERE status = 'running'
           GROUP BY lease_owner) AS h ON h.lease_owner = p.worker
WHERE p.worker > :after AND p.seen_at > {now} - CAST(:silent_us AS {int})
ORDER BY p.worker LIMIT :limit;

-- name: find_worker
-- One listed worker, with the number of jobs that it holds, and the time.
SELECT p.worker, p.identity, p.host, p.pid, p.offer, p.draining, p.started_at, p.seen_at, p.drain_asked_at,
       (SELECT CAST(count(*) AS {int}) FROM job_heads WHERE status = 'running' AND lease_owner = p.worker), {now}
FROM worker_presences p WHERE p.worker = :worker AND p.seen_at > {now} - CAST(:silent_us AS {int});

-- name: request_drain
-- Request that the worker drains. A row: it is the first request.
UPDATE worker_presences SET drain_asked_at = {now} WHERE worker = :worker AND drain_asked_at IS NULL RETURNING worker;

-- name: remove_worker
-- Remove the presence of this process. A row: it was listed.
DELETE FROM worker_presences WHERE worker = :worker AND identity = :identity RETURNING worker;
