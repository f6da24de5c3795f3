-- API keys and the audit log.

-- name: insert_api_key
-- Store the key. No row: its id is taken.
INSERT INTO api_keys (key_id, namespace, name, roles, digest, session_id, expires_at, created_at)
VALUES (:key_id, :namespace, :name, :roles, :digest, :session_id, :expires_at, {now})
ON CONFLICT DO NOTHING
RETURNING key_id;

-- name: find_api_key
-- The key of this id.
SELECT key_id, digest, roles, name, namespace, session_id, expires_at, created_at, revoked_at, last_used_at
FROM api_keys WHERE key_id = :key_id;

-- name: list_api_keys
-- A page of a namespace's keys by id. No id is empty, so the first page starts after the empty one.
SELECT key_id, digest, roles, name, namespace, session_id, expires_at, created_at, revoked_at, last_used_at
FROM api_keys WHERE namespace = :namespace AND key_id > :after ORDER BY key_id LIMIT :limit;

-- name: list_all_api_keys
-- A page of the keys of all namespaces, by id.
SELECT key_id, digest, roles, name, namespace, session_id, expires_at, created_at, revoked_at, last_used_at
FROM api_keys WHERE key_id > :after ORDER BY key_id LIMIT :limit;

-- name: has_api_key
-- A row: at least one key exists, revoked ones included.
SELECT key_id FROM api_keys ORDER BY key_id LIMIT 1;

-- name: revoke_api_key
-- Revoke the key. A row: it was not revoked before.
UPDATE api_keys SET revoked_at = {now} WHERE key_id = :key_id AND revoked_at IS NULL RETURNING key_id;

-- name: list_valid_api_keys
-- Every key that is not revoked.
SELECT key_id, namespace FROM api_keys WHERE revoked_at IS NULL ORDER BY key_id;

-- name: record_api_key_use
-- Record the last use of the key; not again within `every_us`.
UPDATE api_keys SET last_used_at = {now}
WHERE key_id = :key_id AND (last_used_at IS NULL OR last_used_at <= {now} - CAST(:every_us AS {int}));

-- name: create_audit_head
-- Create the log of the namespace.
INSERT INTO audit_heads (namespace, seq, hash) VALUES (:namespace, 0, :hash) ON CONFLICT DO NOTHING;

-- name: lock_audit_head
-- The last line of a log, locked against other writers.
SELECT seq, hash FROM audit_heads WHERE namespace = :namespace {for_update};

-- name: get_audit_head
-- The last line of a log.
SELECT seq, hash FROM audit_heads WHERE namespace = :namespace;

-- name: advance_audit_head
-- Make this line the last one of the log.
UPDATE audit_heads SET seq = :seq, hash = :hash WHERE namespace = :namespace;

-- name: insert_act
-- Append the line to the log.
INSERT INTO audit_acts (namespace, seq, act_id, at, what, body, hash)
VALUES (:namespace, :seq, :act_id, :at, :what, :body, :hash);

-- name: find_act
-- The line of this action.
SELECT seq, act_id, at, what, body, hash FROM audit_acts WHERE namespace = :namespace AND act_id = :act_id;

-- name: list_acts
-- Lines of a log in order, after `after`.
SELECT seq, act_id, at, what, body, hash FROM audit_acts
WHERE namespace = :namespace AND seq > :after ORDER BY seq LIMIT :limit;
