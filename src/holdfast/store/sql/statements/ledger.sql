-- Ledger: intent, outcome and receipt of every tool call.

-- name: get_call
-- The call of one step and generation.
SELECT tool_call_id, job_id, step_key, generation, tool_name, raw_tool_name, side_effect_class, status,
       idempotency_key, args_digest, attempt, fence, intent_seq, result_seq, start_by, longest_call_us, approval_id,
       prepared_at, settled_at
FROM tool_calls WHERE job_id = :job_id AND step_key = :step_key AND generation = :generation;

-- name: find_call_by_key
-- The call with this idempotency key.
SELECT tool_call_id, job_id, step_key, generation, tool_name, raw_tool_name, side_effect_class, status,
       idempotency_key, args_digest, attempt, fence, intent_seq, result_seq, start_by, longest_call_us, approval_id,
       prepared_at, settled_at
FROM tool_calls WHERE idempotency_key = :idempotency_key;

-- name: list_calls
-- A job's calls in the order of their intents.
SELECT tool_call_id, job_id, step_key, generation, tool_name, raw_tool_name, side_effect_class, status,
       idempotency_key, args_digest, attempt, fence, intent_seq, result_seq, start_by, longest_call_us, approval_id,
       prepared_at, settled_at
FROM tool_calls
WHERE job_id = :job_id AND (CAST(:status AS TEXT) IS NULL OR status = :status)
ORDER BY intent_seq, step_key, generation;

-- name: insert_call
-- Add the call to the ledger.
INSERT INTO tool_calls (tool_call_id, job_id, step_key, generation, tool_name, raw_tool_name, side_effect_class, status,
                        idempotency_key, args_digest, attempt, fence, intent_seq, result_seq, start_by, longest_call_us,
                        approval_id, prepared_at, settled_at)
VALUES (:tool_call_id, :job_id, :step_key, :generation, :tool_name, :raw_tool_name, :side_effect_class, :status,
        :idempotency_key, :args_digest, :attempt, :fence, :intent_seq, :result_seq, :start_by, :longest_call_us,
        :approval_id, :prepared_at, :settled_at);

-- name: update_call
-- Update the state of the call; its tool, key and arguments stay.
UPDATE tool_calls
SET status = :status, attempt = :attempt, fence = :fence, result_seq = :result_seq, start_by = :start_by,
    longest_call_us = :longest_call_us, approval_id = :approval_id, settled_at = :settled_at
WHERE job_id = :job_id AND step_key = :step_key AND generation = :generation;

-- name: count_calls
-- The number of calls by tool, side-effect class and status.
SELECT c.tool_name, c.side_effect_class, c.status, CAST(count(*) AS {int})
FROM tool_calls c JOIN job_heads h ON h.job_id = c.job_id
WHERE h.namespace = :namespace
GROUP BY c.tool_name, c.side_effect_class, c.status;
