-- What running jobs have asked people is found without reading their journals. Code from before this leaves it alone.
-- With OR, because SQLite makes a table of the words after IN for every single insert.
CREATE INDEX events_asking ON events (job_id, type)
WHERE type = 'approval_requested' OR type = 'approval_decided' OR type = 'question_asked';
