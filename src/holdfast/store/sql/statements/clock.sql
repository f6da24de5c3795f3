-- The store clock.

-- name: read_store_clock
-- The offset of a boot, and a time that the store has recorded.
SELECT boot, offset_us, seen_at FROM store_clock;

-- name: lock_store_clock
-- The same, locked against other processes that would begin a boot.
SELECT boot, offset_us, seen_at FROM store_clock {for_update};

-- name: save_store_clock
-- Record the offset of this boot, and the time.
UPDATE store_clock SET boot = :this_boot, offset_us = :offset_us, seen_at = :seen_at;
