-- why: a turn writes into four tables; as one statement that is one round trip instead of one per row.

-- name: write_turn
-- The turn's nodes, usage, head and stamp are written. `stamped` is 0 when the same turn was committed beside us just now.
WITH nodes AS (
    INSERT INTO session_nodes (namespace, session_id, node_id, node_seq, parent_node_id, frame_id, caused_by, at, body,
                               body_digest, tombstoned)
    SELECT :namespace, :session_id, n.node_id, n.node_seq, n.parent_node_id, n.frame_id, n.caused_by, n.at, n.body,
           n.body_digest, 0
    FROM unnest(
        CAST(:node_node_ids AS text[]), CAST(:node_node_seqs AS bigint[]), CAST(:node_parent_node_ids AS text[]),
        CAST(:node_frame_ids AS text[]), CAST(:node_caused_bys AS text[]), CAST(:node_ats AS bigint[]),
        CAST(:node_bodys AS bytea[]), CAST(:node_body_digests AS bytea[])
    ) AS n (node_id, node_seq, parent_node_id, frame_id, caused_by, at, body, body_digest)
    ON CONFLICT (namespace, session_id, node_id) DO UPDATE
    SET parent_node_id = excluded.parent_node_id, frame_id = excluded.frame_id, caused_by = excluded.caused_by,
        at = excluded.at, body = excluded.body, body_digest = excluded.body_digest, tombstoned = 0
), used AS (
    INSERT INTO session_usage (namespace, session_id, source, model, first_revision, position, input_tokens,
                               output_tokens, cached_input_tokens, reasoning_tokens)
    SELECT :namespace, :session_id, u.source, u.model, CAST(:revision AS bigint), u.position - 1, u.input_tokens,
           u.output_tokens, u.cached_input_tokens, u.reasoning_tokens
    FROM unnest(
        CAST(:used_source AS text[]), CAST(:used_model AS text[]), CAST(:used_input_tokens AS bigint[]),
        CAST(:used_output_tokens AS bigint[]), CAST(:used_cached_input_tokens AS bigint[]),
        CAST(:used_reasoning_tokens AS bigint[])
    ) WITH ORDINALITY AS u (source, model, input_tokens, output_tokens, cached_input_tokens, reasoning_tokens, position)
    ON CONFLICT (namespace, session_id, source, model) DO UPDATE
    SET input_tokens = session_usage.input_tokens + excluded.input_tokens,
        output_tokens = session_usage.output_tokens + excluded.output_tokens,
        cached_input_tokens = session_usage.cached_input_tokens + excluded.cached_input_tokens,
        reasoning_tokens = session_usage.reasoning_tokens + excluded.reasoning_tokens
), stamp AS (
    INSERT INTO turns (namespace, session_id, turn_id, turn_hash, revision, checkpoint_digest, job_id, committed_at)
    SELECT :namespace, :session_id, CAST(:turn_id AS text), CAST(:turn_hash AS text), CAST(:revision AS bigint),
           CAST(:checkpoint_digest AS bytea), CAST(:job_id AS text), {now}
    WHERE CAST(:turn_id AS text) IS NOT NULL
    ON CONFLICT DO NOTHING
    RETURNING 1
)
UPDATE sessions
SET revision = :revision, leaf_node_id = :leaf_node_id, frame_id = :frame_id, node_seq = :node_seq,
    checkpoint = :checkpoint, checkpoint_digest = :checkpoint_digest, states = :states
WHERE namespace = :namespace AND session_id = :session_id
RETURNING (SELECT count(*) FROM stamp) AS stamped;
