-- Store time: see `store.store_clock`. A file has `offset_us` for a boot of its host, a server has `step_us` and its `epoch`.
-- `seen_at` is a time that the store has seen. Code from before this goes by the wall clock and leaves the row alone.
CREATE TABLE store_clock (
    singleton {int} PRIMARY KEY CHECK (singleton = 1),
    boot {text} NOT NULL,
    offset_us {int} NOT NULL,
    step_us {int} NOT NULL,
    epoch {int} NOT NULL,
    seen_at {int} NOT NULL
) {options};

INSERT INTO store_clock (singleton, boot, offset_us, step_us, epoch, seen_at) VALUES (1, '', 0, 0, 0, 0);
