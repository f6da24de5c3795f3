-- Queue limits.

-- name: set_queue_limits
-- Set the limits of the queue.
INSERT INTO queue_limits (namespace, queue, depth_max, age_max_us)
VALUES (:namespace, :queue, :depth_max, :age_max_us)
ON CONFLICT (namespace, queue) DO UPDATE SET depth_max = excluded.depth_max, age_max_us = excluded.age_max_us;

-- name: remove_queue_limits
-- Remove the limits of the queue: it accepts every job.
DELETE FROM queue_limits WHERE namespace = :namespace AND queue = :queue;

-- name: list_queue_limits
-- The limits of a namespace.
SELECT queue, namespace, depth_max, age_max_us FROM queue_limits WHERE namespace = :namespace ORDER BY queue;

-- name: lock_queue_limits
-- The limits of a queue, locked, so that of two requests for the last place one gets it.
SELECT queue, namespace, depth_max, age_max_us FROM queue_limits
WHERE namespace = :namespace AND queue = :queue {for_update};

-- name: read_queue_load
-- How many jobs of the queue are pending, counted up to `enough`; since when the oldest is ready; and the time.
SELECT CAST((SELECT count(*) FROM (SELECT 1 FROM job_heads
                                   WHERE status = 'pending' AND namespace = :namespace AND queue = :queue
                                   LIMIT :enough) AS counted) AS {int}),
       (SELECT ready_at FROM job_heads
        WHERE status = 'pending' AND namespace = :namespace AND queue = :queue ORDER BY ready_at LIMIT 1),
       {now};
