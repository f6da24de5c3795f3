-- Invariants as queries. Each returns the rows that violate it: (subject, reason). No rows: it holds.

-- name: verify_head_matches_journal
-- I5: seq runs from 1 to the head without gaps.
SELECT h.job_id, 'head says ' || h.head_seq || ', the journal has ' || count(e.seq) || ' events up to ' || coalesce(max(e.seq), 0)
FROM job_heads h LEFT JOIN events e ON e.job_id = h.job_id
GROUP BY h.job_id, h.head_seq
HAVING count(e.seq) <> h.head_seq OR coalesce(max(e.seq), 0) <> h.head_seq OR coalesce(min(e.seq), 0) <> 1;

-- name: verify_no_stray_events
-- I5: every event belongs to a job.
SELECT e.job_id, 'event ' || e.seq || ' belongs to no job'
FROM events e LEFT JOIN job_heads h ON h.job_id = e.job_id WHERE h.job_id IS NULL;

-- name: verify_head_hash
-- I6: the head is the hash of the last event.
SELECT h.job_id, 'the head is not the hash of event ' || h.head_seq
FROM job_heads h JOIN events e ON e.job_id = h.job_id AND e.seq = h.head_seq WHERE e.hash <> h.head_hash;

-- name: verify_erased_by_retention
-- I6: only retention erases bodies, and it leaves a tombstone.
SELECT e.job_id, 'the body of event ' || e.seq || ' is erased, and nobody has said so'
FROM events e LEFT JOIN tombstones t ON t.job_id = e.job_id
WHERE length(e.body) = 0 AND t.job_id IS NULL;

-- name: verify_removed_are_gone
-- I5: a removed job leaves nothing but its tombstone.
SELECT t.job_id, 'was removed, and is still there'
FROM tombstones t
WHERE t.how = 'remove'
  AND (EXISTS (SELECT 1 FROM jobs j WHERE j.job_id = t.job_id)
       OR EXISTS (SELECT 1 FROM events e WHERE e.job_id = t.job_id)
       OR EXISTS (SELECT 1 FROM tool_calls c WHERE c.job_id = t.job_id)
       OR EXISTS (SELECT 1 FROM stream_passages p WHERE p.job_id = t.job_id));

-- name: verify_no_fence_from_the_future
-- I1: no event was written under a fence that the job has not reached.
SELECT e.job_id, 'event ' || e.seq || ' carries fence ' || e.fence || ', the head ' || h.fence
FROM events e JOIN job_heads h ON h.job_id = e.job_id WHERE e.fence > h.fence
UNION ALL
SELECT p.job_id, 'what was said up to ' || p.last || ' carries fence ' || p.fence || ', the head ' || h.fence
FROM stream_passages p JOIN job_heads h ON h.job_id = p.job_id WHERE p.fence > h.fence;

-- name: verify_no_stray_passages
-- I5: every passage belongs to a job.
SELECT p.job_id, 'what was said up to ' || p.last || ' belongs to no job'
FROM stream_passages p LEFT JOIN job_heads h ON h.job_id = p.job_id WHERE h.job_id IS NULL;

-- name: verify_one_grant_per_fence
-- I2: each fence was granted once.
SELECT job_id, 'fence ' || fence || ' was granted ' || count(*) || ' times'
FROM events WHERE type = 'job_claimed' GROUP BY job_id, fence HAVING count(*) > 1;

-- name: verify_epochs
-- I37: no fence is from an epoch that the store has not reached.
SELECT h.job_id, 'fence ' || h.fence || ' is from epoch ' || (h.fence / 4294967296) || ', the store is in ' || s.epoch
FROM job_heads h CROSS JOIN store_state s WHERE h.fence / 4294967296 > s.epoch;

-- name: verify_one_live_job_per_session
-- At most one job of a session is claimable, running or in its turn.
SELECT session_id, count(*) || ' jobs are live' FROM job_heads
WHERE session_slot = 'live' GROUP BY namespace, session_id HAVING count(*) > 1;

-- name: verify_lines_move
-- If a job queues in a session, another job of the session is live.
SELECT b.job_id, 'stands behind in session ' || b.session_id || ', where no job is live'
FROM job_heads b
WHERE b.session_slot = 'behind'
  AND NOT EXISTS (SELECT 1 FROM job_heads l
                  WHERE l.namespace = b.namespace AND l.session_id = b.session_id AND l.session_slot = 'live');

-- name: verify_over_is_over
-- I27: a job that has ended has no timer, no lease and no place in a session.
SELECT h.job_id, 'is ' || h.status || ' and still has a timer, a lease or a place in a line'
FROM job_heads h
WHERE h.status IN ('completed', 'failed', 'cancelled')
  AND (h.lease_token <> '' OR h.session_slot IS NOT NULL OR h.wake_at IS NOT NULL
       OR EXISTS (SELECT 1 FROM timers t WHERE t.job_id = h.job_id));

-- name: verify_mail_is_numbered
-- I29: letters are numbered from 1 to the head's count.
SELECT h.job_id, 'has mail up to ' || h.mail_seq || ' and ' || count(m.mail_seq) || ' letters'
FROM job_heads h LEFT JOIN mail m ON m.job_id = h.job_id
GROUP BY h.job_id, h.mail_seq
HAVING count(m.mail_seq) <> h.mail_seq OR coalesce(max(m.mail_seq), 0) <> h.mail_seq;

-- name: verify_only_running_is_leased
-- I29: a waiting or pending job has no lease, and a running job has one. (I27 covers ended jobs.)
SELECT job_id, 'is ' || status || ', and its lease is <' || lease_token || '> of <' || lease_owner || '>'
FROM job_heads WHERE status IN ('pending', 'running', 'waiting') AND (status = 'running') <> (lease_token <> '');

-- name: verify_same_namespace
-- I34: no row refers to another namespace.
SELECT h.job_id, 'is in namespace ' || h.namespace || ', its request in ' || j.namespace
FROM job_heads h JOIN jobs j ON j.job_id = h.job_id WHERE j.namespace <> h.namespace
UNION ALL
SELECT c.job_id, 'is a child of ' || p.job_id || ' in another namespace'
FROM jobs c JOIN jobs p ON p.job_id = c.parent_job_id WHERE p.namespace <> c.namespace
UNION ALL
SELECT b.batch_id, 'brings job ' || j.job_id || ' of another namespace'
FROM inbox_batches b JOIN jobs j ON j.job_id = b.job_id WHERE j.namespace <> b.namespace;

-- name: verify_batches_are_kept
-- I19: every enqueued batch still exists, in exactly one state.
SELECT s.session_id, 'enqueued ' || s.enqueue_seq || ' batches and has ' || count(b.batch_id)
FROM sessions s
LEFT JOIN inbox_batches b ON b.namespace = s.namespace AND b.session_id = s.session_id
GROUP BY s.namespace, s.session_id, s.enqueue_seq
HAVING count(b.batch_id) <> s.enqueue_seq OR coalesce(max(b.enqueue_seq), 0) <> s.enqueue_seq;

-- name: verify_claims_are_whole
-- I4: a claim has all its columns or none.
SELECT batch_id, 'has half a claim' FROM inbox_batches
WHERE (claim_token IS NULL) <> (claim_id IS NULL) OR (claim_token IS NULL) <> (claim_owner IS NULL)
   OR (claim_token IS NOT NULL AND (claim_expires_at IS NULL OR claim_boot IS NULL OR claim_fence < 1));

-- name: verify_completed_batches_have_a_turn
-- I20: a batch completed by a stamped turn names a committed turn.
SELECT b.batch_id, 'was completed by turn ' || b.settled_by || ', which was never committed'
FROM inbox_batches b
LEFT JOIN turns t ON t.namespace = b.namespace AND t.session_id = b.session_id AND t.turn_id = b.settled_by
WHERE b.state = 'completed' AND b.settled_by <> '' AND t.turn_id IS NULL;

-- name: verify_settled_batches_dropped_items
-- I19: a settled batch has no items, a queued one has some.
SELECT b.batch_id, 'is ' || b.state || ' with ' || count(i.item_index) || ' items'
FROM inbox_batches b
LEFT JOIN inbox_items i ON i.namespace = b.namespace AND i.session_id = b.session_id AND i.batch_id = b.batch_id
GROUP BY b.namespace, b.session_id, b.batch_id, b.state
HAVING (b.state = 'queued') <> (count(i.item_index) > 0);

-- name: verify_turns_fit_the_head
-- I21: each stamped turn has a revision of its own, none beyond the head.
SELECT t.session_id, 'turn ' || t.turn_id || ' is revision ' || t.revision || ', the head is ' || s.revision
FROM turns t JOIN sessions s ON s.namespace = t.namespace AND s.session_id = t.session_id
WHERE t.revision > s.revision
UNION ALL
SELECT session_id, 'revision ' || revision || ' belongs to ' || count(*) || ' turns'
FROM turns GROUP BY namespace, session_id, revision HAVING count(*) > 1;

-- name: verify_graph_is_linked
-- I23: in a graph from which nothing was removed, every parent and the leaf exist.
SELECT s.session_id, 'node ' || n.node_id || ' has no parent ' || n.parent_node_id
FROM sessions s
JOIN session_nodes n ON n.namespace = s.namespace AND n.session_id = s.session_id
LEFT JOIN session_nodes p ON p.namespace = n.namespace AND p.session_id = n.session_id AND p.node_id = n.parent_node_id
WHERE n.parent_node_id IS NOT NULL AND p.node_id IS NULL
  AND s.node_seq = (SELECT count(*) FROM session_nodes c WHERE c.namespace = s.namespace AND c.session_id = s.session_id)
UNION ALL
SELECT s.session_id, 'the leaf ' || s.leaf_node_id || ' does not exist'
FROM sessions s
LEFT JOIN session_nodes n ON n.namespace = s.namespace AND n.session_id = s.session_id AND n.node_id = s.leaf_node_id
WHERE s.leaf_node_id IS NOT NULL AND n.node_id IS NULL
  AND s.node_seq = (SELECT count(*) FROM session_nodes c WHERE c.namespace = s.namespace AND c.session_id = s.session_id);

-- name: verify_blobs_are_there
-- I33: every referenced blob exists. (An erased body is empty and refers to none.)
SELECT e.job_id, 'the body of event ' || e.seq || ' is missing'
FROM events e JOIN job_heads h ON h.job_id = e.job_id
LEFT JOIN blobs b ON b.namespace = h.namespace AND b.digest = e.body_digest
WHERE e.body IS NULL AND b.digest IS NULL
UNION ALL
SELECT n.session_id, 'the body of node ' || n.node_id || ' is missing'
FROM session_nodes n LEFT JOIN blobs b ON b.namespace = n.namespace AND b.digest = n.body_digest
WHERE n.body IS NULL AND b.digest IS NULL
UNION ALL
SELECT i.batch_id, 'the body of item ' || i.item_index || ' is missing'
FROM inbox_items i LEFT JOIN blobs b ON b.namespace = i.namespace AND b.digest = i.body_digest
WHERE i.body IS NULL AND b.digest IS NULL
UNION ALL
SELECT m.job_id, 'the body of letter ' || m.mail_seq || ' is missing'
FROM mail m JOIN job_heads h ON h.job_id = m.job_id
LEFT JOIN blobs b ON b.namespace = h.namespace AND b.digest = m.body_digest
WHERE m.body IS NULL AND b.digest IS NULL;

-- name: verify_keys_stand_for_one_call
-- I14: an idempotency key belongs to one step of one job.
SELECT idempotency_key, 'stands for ' || count(*) || ' calls' FROM tool_calls
GROUP BY idempotency_key HAVING count(*) > 1;

-- name: list_all_heads
-- Every head, for the checks that read journals.
SELECT {head} FROM job_heads WHERE job_id > :after ORDER BY job_id LIMIT :limit;

-- name: list_mail_kinds
-- The kind and time of each of a job's letters.
SELECT mail_seq, kind, sent_at FROM mail WHERE job_id = :job_id;

-- name: list_all_blobs
-- Every blob, a page at a time.
SELECT namespace, digest, body FROM blobs
WHERE namespace > :namespace OR (namespace = :namespace AND digest > :digest)
ORDER BY namespace, digest LIMIT :limit;

-- name: list_all_checkpoints
-- The checkpoint of every session that has one.
SELECT namespace, session_id, checkpoint, checkpoint_digest, states FROM sessions WHERE revision > 0;

-- name: list_all_parents
-- The parent links of every session graph.
SELECT namespace, session_id, node_id, parent_node_id FROM session_nodes ORDER BY namespace, session_id;
