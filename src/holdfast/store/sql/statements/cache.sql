-- Response cache: responses of models by the digest of the request, until they expire.

-- name: get_cache_entry
-- The response, if it has not expired.
SELECT body, created_at, expires_at FROM cache_entries
WHERE namespace = :namespace AND key = :key AND expires_at > {now};

-- name: put_cache_entry
-- Store the response, in place of any other under this key.
INSERT INTO cache_entries (namespace, key, body, created_at, expires_at)
VALUES (:namespace, :key, :body, {now}, {now} + :ttl_us)
ON CONFLICT (namespace, key) DO UPDATE
SET body = excluded.body, created_at = excluded.created_at, expires_at = excluded.expires_at;

-- name: remove_cache_entry
-- Remove the response. A row: it was there.
DELETE FROM cache_entries WHERE namespace = :namespace AND key = :key RETURNING key;

-- name: remove_expired_cache_entries
-- Remove expired responses, the oldest first, at most `limit`; a row for each.
DELETE FROM cache_entries
WHERE (namespace, key) IN (SELECT namespace, key FROM cache_entries
                           WHERE expires_at <= {now} ORDER BY expires_at LIMIT :limit)
RETURNING key;

-- name: count_cache_entries
-- How many responses a namespace has, how many of them have expired, and their bytes.
SELECT CAST(count(*) AS {int}), coalesce(CAST(sum(CASE WHEN expires_at <= {now} THEN 1 ELSE 0 END) AS {int}), 0),
       coalesce(CAST(sum(length(body)) AS {int}), 0)
FROM cache_entries WHERE namespace = :namespace;
