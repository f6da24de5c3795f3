-- why: each database has its own function for its size.

-- name: read_store_size
-- The size of the store in bytes.
SELECT pg_database_size(current_database());
