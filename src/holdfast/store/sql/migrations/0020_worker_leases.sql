-- One lease per worker process, for all the jobs that it drives. Small and updated all the time, hence the room in its pages.
CREATE TABLE worker_leases (
    worker {text} PRIMARY KEY,
    incarnation {text} NOT NULL,
    identity {text} NOT NULL,
    ttl_us {int} NOT NULL,
    beat {int} NOT NULL
) {narrow};
