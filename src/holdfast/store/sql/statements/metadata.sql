-- Store metadata: JSON values by key.

-- name: get_metadata
-- The value and when it was written.
SELECT value, updated_at FROM metadata WHERE key = :key;

-- name: put_metadata
-- Write the value of the key, in place of any other.
INSERT INTO metadata (key, value, updated_at)
VALUES (:key, :value, {now})
ON CONFLICT (key) DO UPDATE SET value = excluded.value, updated_at = excluded.updated_at;
