-- Since when somebody wants a worker to drain. Code from before this leaves it alone.
ALTER TABLE worker_presences ADD COLUMN drain_asked_at {int};
