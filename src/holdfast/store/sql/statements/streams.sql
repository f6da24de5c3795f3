-- Streams: output of running jobs.

-- name: append_passage
-- Append the passage, if its writer holds the job: the head is locked, so that no takeover happens between the check
-- and the write. No row: rejected, or already there.
WITH holder AS MATERIALIZED (
    SELECT job_id FROM job_heads
    WHERE job_id = :job_id AND fence = :fence AND lease_token = :lease_token AND :lease_token <> '' {for_update}
)
INSERT INTO stream_passages (job_id, fence, last, chunks, voices, at, body)
SELECT job_id, :fence, :last, :chunks, :voices, {now}, :body FROM holder WHERE job_id = :job_id
ON CONFLICT DO NOTHING
RETURNING last;

-- name: has_passage
-- A row: this passage is stored.
SELECT 1 FROM stream_passages WHERE job_id = :job_id AND fence = :fence AND last = :last;

-- name: list_passages
-- The passages after a cursor, in order.
SELECT fence, last, chunks, voices, at, body FROM stream_passages
WHERE job_id = :job_id AND (fence, last) > (:fence, :last)
ORDER BY fence, last LIMIT :limit;

-- name: list_voices
-- The steps and attempts that have emitted output.
SELECT DISTINCT voices FROM stream_passages WHERE job_id = :job_id;

-- name: remove_passages
-- Remove the output of the job.
DELETE FROM stream_passages WHERE job_id = :job_id;
