-- What somebody holds is found by his name, and what one claim of his was granted by its token behind it. One index for
-- both: counting what an agent holds, which every claim of an agent does, walked along all jobs that run.
DROP INDEX heads_leased;
CREATE INDEX heads_leased ON job_heads (lease_owner, lease_token) WHERE status = 'running';
