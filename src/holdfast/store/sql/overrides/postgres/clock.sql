-- why: only a server has a clock of its own, which can be set without this process being told.

-- name: read_server_clock
-- The server's clock, its known steps, and a time that others have seen. A process that has known the store for a while
-- says what time it sees, if none has for some seconds.
WITH said AS (
    UPDATE store_clock SET seen_at = CAST(:settled AS bigint) WHERE seen_at < CAST(:settled AS bigint) - 5000000
)
SELECT {wall}, step_us, epoch, seen_at FROM store_clock;

-- name: record_clock_step
-- The step of the server's clock is known to all. No row: another process has recorded one since.
UPDATE store_clock SET step_us = :step_us, epoch = epoch + 1 WHERE epoch = :epoch RETURNING epoch;

-- name: find_latest_submission
-- A time that the store has seen although no process watched its clock: when pending jobs were submitted. A few tell.
SELECT max(j.created_at)
FROM (SELECT job_id FROM job_heads WHERE status = 'pending' ORDER BY ready_at DESC, job_id DESC LIMIT 10) AS h
JOIN jobs j ON j.job_id = h.job_id;
