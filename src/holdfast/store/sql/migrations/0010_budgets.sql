-- Budgets: what a job and everything below it may use, and what they have used together.

CREATE TABLE budgets (
    budget_id {text} PRIMARY KEY REFERENCES job_heads (job_id),
    namespace {text} NOT NULL,
    depth {int} NOT NULL,
    created_at {int} NOT NULL,
    limits {bytes} NOT NULL,
    usd_micros {int} NOT NULL CHECK (usd_micros >= 0),
    tokens {int} NOT NULL CHECK (tokens >= 0),
    tool_calls {int} NOT NULL CHECK (tool_calls >= 0)
) {narrow};
