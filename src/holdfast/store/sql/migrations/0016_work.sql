-- Work that is routed by capability, and agents that live elsewhere.

-- What is asked of a job that is a work item: the rest of it is in its journal.
CREATE TABLE work_items (
    job_id {text} NOT NULL REFERENCES jobs (job_id),
    namespace {text} NOT NULL REFERENCES namespaces (namespace),
    project {text} NOT NULL,
    capability {text} NOT NULL,
    boundary {text} NOT NULL,
    preferred_type {text} NOT NULL,
    deadline_at {int},
    PRIMARY KEY (job_id)
) {options};
CREATE INDEX work_items_by_namespace ON work_items (namespace, job_id);
CREATE INDEX work_items_by_deadline ON work_items (deadline_at) WHERE deadline_at IS NOT NULL;
CREATE INDEX work_items_by_preference ON work_items (capability) WHERE preferred_type <> '';

-- Letters to jobs that nobody drives, and that perhaps nobody will.
CREATE INDEX job_heads_with_mail ON job_heads (job_id) WHERE status = 'pending' AND mail_seq > 0;

-- Agents that live elsewhere, as each says itself. A revision is used once.
CREATE TABLE agent_entries (
    namespace {text} NOT NULL REFERENCES namespaces (namespace),
    guid {text} NOT NULL,
    revision {int} NOT NULL,
    entry {bytes} NOT NULL,
    heard_at {int} NOT NULL,
    PRIMARY KEY (namespace, guid)
) {options};
