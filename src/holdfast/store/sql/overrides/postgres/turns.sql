-- why: a turn writes into four tables; as one statement that is one round trip instead of one per row. Every part is
-- conditional, so a turn that names its revision needs no transaction around it. Every turn moves the revision, and
-- Postgres checks the condition again after a wait for the session's row: so no other turn commits between the
-- condition and the write.

-- name: write_turn
-- Write the session's head, and the turn's nodes, usage and stamp; returns the new revision. No row, and nothing is
-- written: the session has another revision, or already has this turn.
WITH head AS (
    UPDATE sessions s
    SET revision = s.revision + 1, node_seq = s.node_seq + cardinality(CAST(:node_node_ids AS text[])),
        leaf_node_id = CASE WHEN CAST(:replaced AS bigint) = 1 THEN CAST(:leaf_node_id AS text)
                            ELSE coalesce(CAST(:leaf_node_id AS text), s.leaf_node_id) END,
        frame_id = coalesce(CAST(:frame_id AS text), s.frame_id),
        checkpoint = :checkpoint, checkpoint_digest = :checkpoint_digest, states = :states
    WHERE s.namespace = :namespace AND s.session_id = :session_id AND s.revision = CAST(:expected_revision AS bigint)
      AND NOT EXISTS (SELECT 1 FROM turns t WHERE t.namespace = :namespace AND t.session_id = :session_id
                                              AND t.turn_id = CAST(:turn_id AS text))
    RETURNING s.revision, s.node_seq - cardinality(CAST(:node_node_ids AS text[])) AS before
), nodes AS (
    INSERT INTO session_nodes (namespace, session_id, node_id, node_seq, parent_node_id, frame_id, caused_by, at, body,
                               body_digest, tombstoned)
    SELECT :namespace, :session_id, n.node_id, head.before + n.place, n.parent_node_id, n.frame_id, n.caused_by, n.at,
           n.body, n.body_digest, 0
    FROM head, unnest(
        CAST(:node_node_ids AS text[]), CAST(:node_parent_node_ids AS text[]), CAST(:node_frame_ids AS text[]),
        CAST(:node_caused_bys AS text[]), CAST(:node_ats AS bigint[]), CAST(:node_bodys AS bytea[]),
        CAST(:node_body_digests AS bytea[])
    ) WITH ORDINALITY AS n (node_id, parent_node_id, frame_id, caused_by, at, body, body_digest, place)
    ON CONFLICT (namespace, session_id, node_id) DO UPDATE
    SET parent_node_id = excluded.parent_node_id, frame_id = excluded.frame_id, caused_by = excluded.caused_by,
        at = excluded.at, body = excluded.body, body_digest = excluded.body_digest, tombstoned = 0
), used AS (
    INSERT INTO session_usage (namespace, session_id, source, model, first_revision, position, input_tokens,
                               output_tokens, cached_input_tokens, reasoning_tokens)
    SELECT :namespace, :session_id, u.source, u.model, head.revision, u.place - 1, u.input_tokens, u.output_tokens,
           u.cached_input_tokens, u.reasoning_tokens
    FROM head, unnest(
        CAST(:used_source AS text[]), CAST(:used_model AS text[]), CAST(:used_input_tokens AS bigint[]),
        CAST(:used_output_tokens AS bigint[]), CAST(:used_cached_input_tokens AS bigint[]),
        CAST(:used_reasoning_tokens AS bigint[])
    ) WITH ORDINALITY AS u (source, model, input_tokens, output_tokens, cached_input_tokens, reasoning_tokens, place)
    ON CONFLICT (namespace, session_id, source, model) DO UPDATE
    SET input_tokens = session_usage.input_tokens + excluded.input_tokens,
        output_tokens = session_usage.output_tokens + excluded.output_tokens,
        cached_input_tokens = session_usage.cached_input_tokens + excluded.cached_input_tokens,
        reasoning_tokens = session_usage.reasoning_tokens + excluded.reasoning_tokens
), stamp AS (
    INSERT INTO turns (namespace, session_id, turn_id, turn_hash, revision, checkpoint_digest, job_id, committed_at)
    SELECT :namespace, :session_id, CAST(:turn_id AS text), CAST(:turn_hash AS text), head.revision,
           CAST(:checkpoint_digest AS bytea), CAST(:job_id AS text), {now}
    FROM head WHERE CAST(:turn_id AS text) IS NOT NULL
)
SELECT revision FROM head;
