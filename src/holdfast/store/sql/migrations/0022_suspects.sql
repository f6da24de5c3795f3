-- Suspects that no worker drives are found without reading the queue. Code from before this leaves it alone.
-- The 2 is `model.suspicion.SUSPECT_AT`. With OR, because SQLite makes a table of the words after IN for every single write.
CREATE INDEX heads_suspect ON job_heads (job_id) WHERE (status = 'pending' OR status = 'waiting') AND takeovers >= 2;
