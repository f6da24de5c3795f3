-- Streams: what running code says while it runs.

-- name: append_passage
-- The passage is there, if its writer holds the job: the head is locked, so that no takeover comes between the look and
-- the write. No row: refused, or there already.
WITH holder AS MATERIALIZED (
    SELECT job_id FROM job_heads
    WHERE job_id = :job_id AND fence = :fence AND lease_token = :lease_token AND :lease_token <> '' {for_update}
)
INSERT INTO stream_passages (job_id, fence, last, chunks, voices, at, body)
SELECT job_id, :fence, :last, :chunks, :voices, {now}, :body FROM holder WHERE job_id = :job_id
ON CONFLICT DO NOTHING
RETURNING last;

-- name: has_passage
-- A row: this passage is there.
SELECT 1 FROM stream_passages WHERE job_id = :job_id AND fence = :fence AND last = :last;

-- name: list_passages
-- What was said behind a cursor, in order.
SELECT fence, last, chunks, voices, at, body FROM stream_passages
WHERE job_id = :job_id AND (fence, last) > (:fence, :last)
ORDER BY fence, last LIMIT :limit;

-- name: list_voices
-- Who has spoken.
SELECT DISTINCT voices FROM stream_passages WHERE job_id = :job_id;

-- name: remove_passages
-- What the job said while it ran is gone.
DELETE FROM stream_passages WHERE job_id = :job_id;
