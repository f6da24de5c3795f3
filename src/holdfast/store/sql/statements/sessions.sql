-- Sessions: the atomic turn commit, and loading.

-- name: ensure_session
-- Create the row of the session, at revision 0, unless it exists.
INSERT INTO sessions (namespace, session_id, revision, node_seq, enqueue_seq, created_at)
VALUES (:namespace, :session_id, 0, 0, 0, {now})
ON CONFLICT (namespace, session_id) DO NOTHING;

-- name: lock_session_for_turn
-- The session's head, locked against every other turn, and the stamp of this turn id, if it was committed.
SELECT s.revision, s.leaf_node_id, s.frame_id, s.node_seq, t.turn_hash, t.revision, t.checkpoint_digest
FROM sessions s
LEFT JOIN turns t ON t.namespace = s.namespace AND t.session_id = s.session_id AND t.turn_id = :turn_id
WHERE s.namespace = :namespace AND s.session_id = :session_id {for_update_of_s};

-- name: find_session_by_handle
-- The session to which a handle is bound.
SELECT session_id FROM session_handles WHERE namespace = :namespace AND handle = :handle;

-- name: bind_handle
-- Bind the handle to this session, unless it is bound already.
INSERT INTO session_handles (namespace, handle, session_id) VALUES (:namespace, :handle, :session_id)
ON CONFLICT (namespace, handle) DO NOTHING;

-- name: insert_turn
-- Stamp the turn: a retry finds its result here. No row: another process has just committed the same turn.
INSERT INTO turns (namespace, session_id, turn_id, turn_hash, revision, checkpoint_digest, job_id, committed_at)
VALUES (:namespace, :session_id, :turn_id, :turn_hash, :revision, :checkpoint_digest, :job_id, {now})
ON CONFLICT DO NOTHING
RETURNING revision;

-- name: advance_session
-- Move the session to the next revision.
UPDATE sessions
SET revision = :revision, leaf_node_id = :leaf_node_id, frame_id = :frame_id, node_seq = :node_seq,
    checkpoint = :checkpoint, checkpoint_digest = :checkpoint_digest, states = :states
WHERE namespace = :namespace AND session_id = :session_id;

-- name: remove_all_nodes
-- Remove all nodes; a commit with `replace` writes new ones.
DELETE FROM session_nodes WHERE namespace = :namespace AND session_id = :session_id;

-- name: put_node
-- Store the node, visible; a node that is committed again is replaced and keeps its position.
INSERT INTO session_nodes (namespace, session_id, node_id, node_seq, parent_node_id, frame_id, caused_by, at, body,
                           body_digest, tombstoned)
VALUES (:namespace, :session_id, :node_id, :node_seq, :parent_node_id, :frame_id, :caused_by, :at, :body, :body_digest, 0)
ON CONFLICT (namespace, session_id, node_id) DO UPDATE
SET parent_node_id = excluded.parent_node_id, frame_id = excluded.frame_id, caused_by = excluded.caused_by,
    at = excluded.at, body = excluded.body, body_digest = excluded.body_digest, tombstoned = 0;

-- name: put_frame
-- Store the frame as the turn leaves it.
INSERT INTO session_frames (namespace, session_id, frame_id, frame_seq, previous_frame_id, status, reason, caused_by,
                            created_at, assignment, snapshot, snapshot_digest)
VALUES (:namespace, :session_id, :frame_id, :frame_seq, :previous_frame_id, :status, :reason, :caused_by, :created_at,
        :assignment, :snapshot, :snapshot_digest)
ON CONFLICT (namespace, session_id, frame_id) DO UPDATE
SET previous_frame_id = excluded.previous_frame_id, status = excluded.status, reason = excluded.reason,
    caused_by = excluded.caused_by, created_at = excluded.created_at, assignment = excluded.assignment,
    snapshot = excluded.snapshot, snapshot_digest = excluded.snapshot_digest;

-- name: count_frames
-- How many frames the session has: the position of the next one.
SELECT CAST(count(*) AS {int}) FROM session_frames WHERE namespace = :namespace AND session_id = :session_id;

-- name: add_usage
-- Add to the totals of one source and model.
INSERT INTO session_usage (namespace, session_id, source, model, first_revision, position, input_tokens, output_tokens,
                           cached_input_tokens, reasoning_tokens)
VALUES (:namespace, :session_id, :source, :model, :revision, :position, :input_tokens, :output_tokens,
        :cached_input_tokens, :reasoning_tokens)
ON CONFLICT (namespace, session_id, source, model) DO UPDATE
SET input_tokens = session_usage.input_tokens + excluded.input_tokens,
    output_tokens = session_usage.output_tokens + excluded.output_tokens,
    cached_input_tokens = session_usage.cached_input_tokens + excluded.cached_input_tokens,
    reasoning_tokens = session_usage.reasoning_tokens + excluded.reasoning_tokens;

-- name: load_session
-- The session's head and checkpoint; no row before its first commit.
SELECT revision, leaf_node_id, frame_id, checkpoint, checkpoint_digest, states FROM sessions
WHERE namespace = :namespace AND session_id = :session_id AND revision > 0;

-- name: load_nodes
-- Every visible node in insertion order.
SELECT n.node_id, n.parent_node_id, n.frame_id, n.caused_by, n.at,
       CASE WHEN n.body IS NOT NULL THEN n.body
            ELSE (SELECT b.body FROM blobs b WHERE b.namespace = n.namespace AND b.digest = n.body_digest) END
FROM session_nodes n
WHERE n.namespace = :namespace AND n.session_id = :session_id AND n.tombstoned = 0
ORDER BY n.node_seq;

-- name: load_path
-- The visible ancestry of a leaf, in no order. UNION, not UNION ALL: nodes that are committed again with other parents
-- may form a cycle, and the recursion ends where it closes. CROSS JOIN keeps SQLite from reversing the join, from every
-- node of the session to the path.
WITH RECURSIVE path (node_id, parent_node_id) AS (
    SELECT n.node_id, n.parent_node_id FROM session_nodes n
    WHERE n.namespace = :namespace AND n.session_id = :session_id AND n.node_id = :leaf_node_id AND n.tombstoned = 0
    UNION
    SELECT p.node_id, p.parent_node_id
    FROM path CROSS JOIN session_nodes p
    WHERE p.namespace = :namespace AND p.session_id = :session_id AND p.node_id = path.parent_node_id
      AND p.tombstoned = 0
)
SELECT n.node_id, n.parent_node_id, n.frame_id, n.caused_by, n.at,
       CASE WHEN n.body IS NOT NULL THEN n.body
            ELSE (SELECT b.body FROM blobs b WHERE b.namespace = n.namespace AND b.digest = n.body_digest) END
FROM path CROSS JOIN session_nodes n
WHERE n.namespace = :namespace AND n.session_id = :session_id AND n.node_id = path.node_id;

-- name: load_node
-- One visible node.
SELECT n.node_id, n.parent_node_id, n.frame_id, n.caused_by, n.at,
       CASE WHEN n.body IS NOT NULL THEN n.body
            ELSE (SELECT b.body FROM blobs b WHERE b.namespace = n.namespace AND b.digest = n.body_digest) END
FROM session_nodes n
WHERE n.namespace = :namespace AND n.session_id = :session_id AND n.node_id = :node_id AND n.tombstoned = 0;

-- name: load_frames
-- Frames in the order they were opened.
SELECT f.frame_id, f.previous_frame_id, f.status, f.reason, f.caused_by, f.created_at, f.assignment,
       CASE WHEN f.snapshot IS NOT NULL OR f.snapshot_digest IS NULL THEN f.snapshot
            ELSE (SELECT b.body FROM blobs b WHERE b.namespace = f.namespace AND b.digest = f.snapshot_digest) END
FROM session_frames f
WHERE f.namespace = :namespace AND f.session_id = :session_id
ORDER BY f.frame_seq;

-- name: load_usage
-- The totals by source and model, in the order they first appeared.
SELECT source, model, input_tokens, output_tokens, cached_input_tokens, reasoning_tokens FROM session_usage
WHERE namespace = :namespace AND session_id = :session_id ORDER BY first_revision, position;

-- name: save_meta
-- Store the metadata of the session.
UPDATE sessions SET meta = :meta WHERE namespace = :namespace AND session_id = :session_id;

-- name: load_meta
-- The metadata of the session, if it has any.
SELECT meta FROM sessions WHERE namespace = :namespace AND session_id = :session_id AND meta IS NOT NULL;

-- name: hide_node
-- Hide the node. A row: it was visible before.
UPDATE session_nodes SET tombstoned = 1
WHERE namespace = :namespace AND session_id = :session_id AND node_id = :node_id AND tombstoned = 0
RETURNING node_id;

-- name: remove_hidden_nodes
-- Remove the hidden nodes.
DELETE FROM session_nodes
WHERE namespace = :namespace AND session_id = :session_id AND tombstoned = 1
RETURNING node_id;

-- name: list_sessions
-- A page of sessions that have a commit or a job, newest id first.
SELECT s.session_id, s.revision,
       (SELECT CAST(count(*) AS {int}) FROM jobs j WHERE j.namespace = s.namespace AND j.session_id = s.session_id),
       (SELECT max(j.created_at) FROM jobs j WHERE j.namespace = s.namespace AND j.session_id = s.session_id)
FROM sessions s
WHERE s.namespace = :namespace
  AND (CAST(:before AS TEXT) IS NULL OR s.session_id < :before)
  AND (CAST(:text AS TEXT) IS NULL OR {place}(lower(s.session_id), :text) > 0)
  AND (s.revision > 0
       OR EXISTS (SELECT 1 FROM jobs j WHERE j.namespace = s.namespace AND j.session_id = s.session_id))
ORDER BY s.session_id DESC
LIMIT :limit;
