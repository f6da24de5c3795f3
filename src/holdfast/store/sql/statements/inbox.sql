-- Inbox: batches, claims, attachments.

-- name: advance_enqueue_seq
-- The number of the next batch in the queue of the session.
UPDATE sessions SET enqueue_seq = enqueue_seq + 1
WHERE namespace = :namespace AND session_id = :session_id
RETURNING enqueue_seq;

-- name: insert_batch
-- Append the batch to the session's queue, without a claim.
INSERT INTO inbox_batches (namespace, session_id, batch_id, enqueue_seq, source_key, delivery, slot, merge_key,
                           available_at, enqueued_at, state, job_id, claim_fence)
VALUES (:namespace, :session_id, :batch_id, :enqueue_seq, :source_key, :delivery, :slot, :merge_key, :available_at,
        {now}, 'queued', :job_id, 0);

-- name: insert_item
-- Store an item of a batch, at its place.
INSERT INTO inbox_items (namespace, session_id, batch_id, item_index, kind, body, body_digest)
VALUES (:namespace, :session_id, :batch_id, :item_index, :kind, :body, :body_digest);

-- name: find_batch_by_source
-- The batch that an earlier enqueue with this source key stored.
SELECT batch_id FROM inbox_batches
WHERE namespace = :namespace AND session_id = :session_id AND source_key = :source_key;

-- name: get_batch
-- One batch as it is stored.
SELECT batch_id, session_id, enqueue_seq, delivery, slot, merge_key, source_key, available_at, enqueued_at, state,
       job_id, settled_by
FROM inbox_batches WHERE namespace = :namespace AND session_id = :session_id AND batch_id = :batch_id;

-- name: list_queued_batches
-- Every queued batch, in order, claimed or not.
SELECT batch_id, session_id, enqueue_seq, delivery, slot, merge_key, source_key, available_at, enqueued_at, state,
       job_id, settled_by
FROM inbox_batches
WHERE namespace = :namespace AND session_id = :session_id AND state = 'queued'
ORDER BY enqueue_seq;

-- name: list_pending_batches
-- The queued batches without a live claim, in order.
SELECT batch_id, session_id, enqueue_seq, delivery, slot, merge_key, source_key, available_at, enqueued_at, state,
       job_id, settled_by
FROM inbox_batches
WHERE namespace = :namespace AND session_id = :session_id AND state = 'queued'
  AND (claim_token IS NULL OR claim_boot <> {boot} OR claim_expires_at <= {tick})
ORDER BY enqueue_seq;

-- name: list_session_items
-- The items of every queued batch of a session, in order.
SELECT i.batch_id, i.item_index, i.kind,
       CASE WHEN i.body IS NOT NULL THEN i.body
            ELSE (SELECT b.body FROM blobs b WHERE b.namespace = i.namespace AND b.digest = i.body_digest) END
FROM inbox_items i
WHERE i.namespace = :namespace AND i.session_id = :session_id
ORDER BY i.batch_id, i.item_index;

-- name: list_batch_items
-- The items of one batch, in order.
SELECT i.item_index, i.kind,
       CASE WHEN i.body IS NOT NULL THEN i.body
            ELSE (SELECT b.body FROM blobs b WHERE b.namespace = i.namespace AND b.digest = i.body_digest) END
FROM inbox_items i
WHERE i.namespace = :namespace AND i.session_id = :session_id AND i.batch_id = :batch_id
ORDER BY i.item_index;

-- name: remove_items
-- Remove the items of a settled batch, which keeps its row: the turn that used them has them.
DELETE FROM inbox_items WHERE namespace = :namespace AND session_id = :session_id AND batch_id = :batch_id;

-- name: cancel_batch
-- Cancel the batch. No row: it has a live claim, is settled or unknown.
UPDATE inbox_batches
SET state = 'cancelled', settled_at = {now}, settled_by = '', claim_id = NULL, claim_owner = NULL, claim_token = NULL
WHERE namespace = :namespace AND session_id = :session_id AND batch_id = :batch_id AND state = 'queued'
  AND (claim_token IS NULL OR claim_boot <> {boot} OR claim_expires_at <= {tick})
RETURNING batch_id;

-- name: remove_message
-- Cancel the message of a job that ended without a commit, unless another turn has claimed it.
UPDATE inbox_batches
SET state = 'cancelled', settled_at = {now}, settled_by = '', claim_id = NULL, claim_owner = NULL, claim_token = NULL
WHERE namespace = :namespace AND session_id = :session_id AND batch_id = :job_id AND state = 'queued'
  AND (claim_owner IS NULL OR claim_owner = :job_id)
RETURNING batch_id;

-- name: release_batches
-- Release the batches that the job has claimed.
UPDATE inbox_batches
SET claim_id = NULL, claim_owner = NULL, claim_token = NULL, claim_boot = NULL, claimed_at = NULL,
    claim_expires_at = NULL
WHERE namespace = :namespace AND session_id = :session_id AND state = 'queued' AND claim_owner = :job_id;

-- name: list_claimable_batches
-- The batches that a claim may choose from: queued, available, without a live claim; in enqueue order.
SELECT batch_id, enqueue_seq, delivery, slot, merge_key, claim_fence
FROM inbox_batches
WHERE namespace = :namespace AND session_id = :session_id AND state = 'queued' AND available_at <= {now}
  AND (claim_token IS NULL OR claim_boot <> {boot} OR claim_expires_at <= {tick})
ORDER BY enqueue_seq;

-- name: find_claim_by_token
-- The live claim that an earlier call with this token made: its reply may have been lost.
SELECT batch_id, claim_id, claim_owner, claim_fence, claimed_at, claim_expires_at
FROM inbox_batches
WHERE namespace = :namespace AND session_id = :session_id AND state = 'queued' AND claim_token = :token
  AND claim_boot = {boot} AND claim_expires_at > {tick}
ORDER BY enqueue_seq;

-- name: claim_batch
-- Claim the batch, under its next fence.
UPDATE inbox_batches
SET claim_id = :claim_id, claim_owner = :owner, claim_token = :token, claim_boot = {boot}, claimed_at = {now},
    claim_expires_at = {tick} + :ttl_us, claim_fence = claim_fence + 1
WHERE namespace = :namespace AND session_id = :session_id AND batch_id = :batch_id
RETURNING claimed_at, claim_expires_at;

-- name: renew_batch
-- Renew the claim on the batch for `ttl_us` from now. No row: the claim no longer holds it.
UPDATE inbox_batches SET claim_expires_at = {tick} + :ttl_us, claim_boot = {boot}
WHERE namespace = :namespace AND session_id = :session_id AND batch_id = :batch_id
  AND state = 'queued' AND claim_id = :claim_id AND claim_token = :token
RETURNING claim_expires_at;

-- name: release_batch
-- Release the batch, if this claim holds it.
UPDATE inbox_batches
SET claim_id = NULL, claim_owner = NULL, claim_token = NULL, claim_boot = NULL, claimed_at = NULL,
    claim_expires_at = NULL
WHERE namespace = :namespace AND session_id = :session_id AND batch_id = :batch_id
  AND state = 'queued' AND claim_id = :claim_id AND claim_token = :token
RETURNING batch_id;

-- name: complete_batch
-- Settle the batch by this turn. No row: the claim no longer holds it.
UPDATE inbox_batches
SET state = 'completed', settled_by = :turn_id, settled_at = {now}, claim_id = NULL, claim_owner = NULL,
    claim_token = NULL
WHERE namespace = :namespace AND session_id = :session_id AND batch_id = :batch_id
  AND state = 'queued' AND claim_id = :claim_id AND claim_token = :token
RETURNING batch_id;

-- name: lock_claimed_batch
-- The batch, if the claim still holds it; locked until the transaction ends.
SELECT batch_id FROM inbox_batches
WHERE namespace = :namespace AND session_id = :session_id AND batch_id = :batch_id
  AND state = 'queued' AND claim_id = :claim_id AND claim_token = :token {for_update};

-- name: insert_attachment
-- Record the intent; the first one under an id stays.
INSERT INTO attachments (namespace, attachment_id, session_id, uri, intent_at)
VALUES (:namespace, :attachment_id, :session_id, :uri, :intent_at)
ON CONFLICT (namespace, attachment_id) DO NOTHING;

-- name: commit_attachment
-- Stamp the attachment as used by a turn of any session; the first stamp wins.
UPDATE attachments SET committed_at = {now}
WHERE namespace = :namespace AND attachment_id = :attachment_id AND committed_at IS NULL;

-- name: list_attachments
-- The attachments that were announced for a session.
SELECT attachment_id, session_id, uri, intent_at, committed_at FROM attachments
WHERE namespace = :namespace AND session_id = :session_id
ORDER BY intent_at, attachment_id;

-- name: list_uncommitted_attachments
-- Intents that no turn has stamped, oldest first.
SELECT attachment_id, session_id, uri, intent_at, committed_at FROM attachments
WHERE namespace = :namespace AND committed_at IS NULL AND intent_at < :before
ORDER BY intent_at, attachment_id;

-- name: remove_attachment
-- Remove the attachment.
DELETE FROM attachments WHERE namespace = :namespace AND attachment_id = :attachment_id;
