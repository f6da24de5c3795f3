-- What a queue takes before it says no. No row: everything.

CREATE TABLE queue_limits (
    namespace {text} NOT NULL REFERENCES namespaces (namespace),
    queue {text} NOT NULL,
    depth_max {int},
    age_max_us {int},
    PRIMARY KEY (namespace, queue)
) {options};
