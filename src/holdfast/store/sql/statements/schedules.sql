-- Schedules (cron).

-- name: put_schedule
-- Store the schedule; with the same times its `next_at` stays, and a pause stays in any case.
INSERT INTO schedules (namespace, schedule_id, kind, queue, priority, request, cron, time_zone, catch_up, paused,
                       next_at, created_at)
VALUES (:namespace, :schedule_id, :kind, :queue, :priority, :request, :cron, :time_zone, :catch_up, :paused, :next_at,
        {now})
ON CONFLICT (namespace, schedule_id) DO UPDATE
SET kind = excluded.kind, queue = excluded.queue, priority = excluded.priority, request = excluded.request,
    cron = excluded.cron, time_zone = excluded.time_zone, catch_up = excluded.catch_up,
    next_at = CASE WHEN schedules.cron = excluded.cron AND schedules.time_zone = excluded.time_zone
                   THEN schedules.next_at ELSE excluded.next_at END;

-- name: get_schedule
-- The schedule of this id.
SELECT schedule_id, kind, cron, next_at, time_zone, catch_up, request, namespace, queue, priority, paused, created_at
FROM schedules WHERE namespace = :namespace AND schedule_id = :schedule_id;

-- name: lock_schedule
-- The same, locked against other processes that would fire it.
SELECT schedule_id, kind, cron, next_at, time_zone, catch_up, request, namespace, queue, priority, paused, created_at
FROM schedules WHERE namespace = :namespace AND schedule_id = :schedule_id {for_update};

-- name: list_schedules
-- A page of schedules by id. No id is empty, so the first page starts after the empty one.
SELECT schedule_id, kind, cron, next_at, time_zone, catch_up, request, namespace, queue, priority, paused, created_at
FROM schedules WHERE namespace = :namespace AND schedule_id > :after ORDER BY schedule_id LIMIT :limit;

-- name: list_due_schedules
-- The due schedules, longest due first.
SELECT schedule_id, kind, cron, next_at, time_zone, catch_up, request, namespace, queue, priority, paused, created_at
FROM schedules WHERE paused = 0 AND next_at <= {wall} ORDER BY next_at, namespace, schedule_id LIMIT :limit;

-- name: set_schedule_next_at
-- Set the next due time of the schedule.
UPDATE schedules SET next_at = :next_at WHERE namespace = :namespace AND schedule_id = :schedule_id;

-- name: pause_schedule
-- Pause the schedule.
UPDATE schedules SET paused = 1 WHERE namespace = :namespace AND schedule_id = :schedule_id;

-- name: resume_schedule
-- Resume the schedule from this due time on; one that is not paused is left unchanged.
UPDATE schedules SET paused = 0, next_at = :next_at
WHERE namespace = :namespace AND schedule_id = :schedule_id AND paused = 1;

-- name: remove_schedule
-- Remove the schedule. A row: it was there.
DELETE FROM schedules WHERE namespace = :namespace AND schedule_id = :schedule_id RETURNING schedule_id;
