-- Who drives jobs now, as each says itself.

CREATE TABLE worker_presences (
    worker {text} NOT NULL,
    identity {text} NOT NULL,
    host {text} NOT NULL,
    pid {int} NOT NULL,
    offer {bytes} NOT NULL,
    draining {int} NOT NULL,
    started_at {int} NOT NULL,
    seen_at {int} NOT NULL,
    PRIMARY KEY (worker)
) {options};
