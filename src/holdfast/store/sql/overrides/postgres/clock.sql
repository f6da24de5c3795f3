-- why: only a server has a clock of its own, which can be set without notice to this process.

-- name: read_server_clock
-- The server's clock, its known steps, and a time that other processes have recorded. A process that has watched the
-- clock for a while records its time, if the recorded one is some seconds old.
WITH said AS (
    UPDATE store_clock SET seen_at = CAST(:settled AS bigint) WHERE seen_at < CAST(:settled AS bigint) - 5000000
)
SELECT {wall}, step_us, epoch, seen_at FROM store_clock;

-- name: record_clock_step
-- Record the step of the server's clock for all processes. No row: another process has recorded one meanwhile.
UPDATE store_clock SET step_us = :step_us, epoch = epoch + 1 WHERE epoch = :epoch RETURNING epoch;

-- name: find_latest_submission
-- A time that the store has recorded although no process watched its clock: the latest submission among a few pending
-- jobs.
SELECT max(j.created_at)
FROM (SELECT job_id FROM job_heads WHERE status = 'pending' ORDER BY ready_at DESC, job_id DESC LIMIT 10) AS h
JOIN jobs j ON j.job_id = h.job_id;
