-- What running code says while it runs. No foreign key, like events: a row is only written while its job is held, and
-- leaves with the job. The order of the key is the order of reading.

CREATE TABLE stream_passages (
    job_id {text} NOT NULL,
    fence {int} NOT NULL,
    last {int} NOT NULL,
    chunks {int} NOT NULL CHECK (chunks BETWEEN 1 AND last),
    voices {text} NOT NULL,
    at {int} NOT NULL,
    body {bytes} NOT NULL,
    PRIMARY KEY (job_id, fence, last)
) {options};
