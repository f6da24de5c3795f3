-- why: each database knows its own size by its own name.

-- name: read_store_size
-- How many bytes the store takes.
SELECT pg_database_size(current_database());
