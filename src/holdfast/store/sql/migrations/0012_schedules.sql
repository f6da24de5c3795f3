-- Schedules: which job begins when. `next_at` is the guard of every firing.

CREATE TABLE schedules (
    namespace {text} NOT NULL REFERENCES namespaces (namespace),
    schedule_id {text} NOT NULL,
    kind {text} NOT NULL,
    queue {text} NOT NULL,
    priority {int} NOT NULL CHECK (priority BETWEEN 1 AND 10),
    request {bytes} NOT NULL,
    cron {text} NOT NULL,
    time_zone {text} NOT NULL,
    catch_up {text} NOT NULL CHECK (catch_up IN ('skip', 'one', 'all')),
    paused {int} NOT NULL CHECK (paused IN (0, 1)),
    next_at {int} NOT NULL,
    created_at {int} NOT NULL,
    PRIMARY KEY (namespace, schedule_id)
) {options};

CREATE INDEX schedules_due ON schedules (next_at) WHERE paused = 0;
