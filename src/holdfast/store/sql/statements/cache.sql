-- The cache: answers under the digest of their question, for a while.

-- name: get_cache_entry
-- The answer, if it is still good.
SELECT body, created_at, expires_at FROM cache_entries
WHERE namespace = :namespace AND key = :key AND expires_at > {now};

-- name: put_cache_entry
-- The answer is there from now on, whatever was there before, good or expired.
INSERT INTO cache_entries (namespace, key, body, created_at, expires_at)
VALUES (:namespace, :key, :body, {now}, {now} + :ttl_us)
ON CONFLICT (namespace, key) DO UPDATE
SET body = excluded.body, created_at = excluded.created_at, expires_at = excluded.expires_at;

-- name: remove_cache_entry
-- The answer is gone. A row: it was there.
DELETE FROM cache_entries WHERE namespace = :namespace AND key = :key RETURNING key;

-- name: remove_expired_cache_entries
-- Expired answers are gone, the oldest first, at most so many; a row for each.
DELETE FROM cache_entries
WHERE (namespace, key) IN (SELECT namespace, key FROM cache_entries
                           WHERE expires_at <= {now} ORDER BY expires_at LIMIT :limit)
RETURNING key;

-- name: count_cache_entries
-- How many answers a namespace has, how many of them are expired, and their bytes.
SELECT CAST(count(*) AS {int}), coalesce(CAST(sum(CASE WHEN expires_at <= {now} THEN 1 ELSE 0 END) AS {int}), 0),
       coalesce(CAST(sum(length(body)) AS {int}), 0)
FROM cache_entries WHERE namespace = :namespace;
