-- Mailbox and timers.

-- name: find_mail_by_operation
-- The letter that an earlier send of this operation stored.
SELECT mail_seq FROM mail WHERE job_id = :job_id AND operation_id = :operation_id;

-- name: advance_mail_seq
-- Count one more letter; with `woken` the job becomes claimable.
UPDATE job_heads
SET mail_seq = mail_seq + 1,
    status = CASE WHEN :woken = 1 THEN 'pending' ELSE status END,
    wait_reason = CASE WHEN :woken = 1 THEN NULL ELSE wait_reason END,
    wake_at = CASE WHEN :woken = 1 THEN NULL ELSE wake_at END,
    ready_at = CASE WHEN :woken = 1 THEN {now} ELSE ready_at END
WHERE job_id = :job_id;

-- name: insert_mail
-- Store the letter.
INSERT INTO mail (job_id, mail_seq, kind, name, body, body_digest, sender, operation_id, sent_at)
VALUES (:job_id, :mail_seq, :kind, :name, :body, :body_digest, :sender, :operation_id, {now});

-- name: list_mail
-- Letters after a number, in order.
SELECT m.mail_seq, m.kind, m.name,
       CASE WHEN m.body IS NOT NULL THEN m.body
            ELSE (SELECT b.body FROM job_heads h JOIN blobs b ON b.namespace = h.namespace AND b.digest = m.body_digest
                  WHERE h.job_id = m.job_id) END,
       m.sender, m.operation_id, m.sent_at
FROM mail m WHERE m.job_id = :job_id AND m.mail_seq > :after ORDER BY m.mail_seq;

-- name: set_timer
-- Set the timer to `due_at`, whatever it was set to before.
INSERT INTO timers (job_id, step_key, due_at) VALUES (:job_id, :step_key, :due_at)
ON CONFLICT (job_id, step_key) DO UPDATE SET due_at = excluded.due_at;

-- name: remove_timer
-- Remove the timer.
DELETE FROM timers WHERE job_id = :job_id AND step_key = :step_key;

-- name: list_timers
-- Open timers, earliest first.
SELECT step_key, due_at FROM timers WHERE job_id = :job_id ORDER BY due_at, step_key;
