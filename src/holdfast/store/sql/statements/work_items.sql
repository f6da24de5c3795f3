-- Work items, routed by capability, and registry entries of external agents.

-- name: insert_work
-- Make the job a work item.
INSERT INTO work_items (job_id, namespace, project, capability, boundary, preferred_type, deadline_at)
VALUES (:job_id, :namespace, :project, :capability, :boundary, :preferred_type, :deadline_at);

-- name: find_work
-- The work item of this job, if it is one.
SELECT w.project, w.capability, w.boundary, w.preferred_type, w.deadline_at
FROM work_items w WHERE w.job_id = :job_id;

-- name: list_work
-- A page of work items, newest id first, each with its head; a NULL filter matches everything.
SELECT w.project, w.capability, w.boundary, w.preferred_type, w.deadline_at,
       {head:h}
FROM work_items w JOIN job_heads h ON h.job_id = w.job_id
WHERE w.namespace = :namespace
  AND (CAST(:status AS TEXT) IS NULL OR h.status = :status)
  AND (CAST(:dead AS {int}) IS NULL OR (coalesce(h.wait_reason, '') = 'dead_letter') = (CAST(:dead AS {int}) = 1))
  AND (CAST(:capability AS TEXT) IS NULL OR w.capability = :capability)
  AND (CAST(:boundary AS TEXT) IS NULL OR w.boundary = :boundary)
  AND (CAST(:project AS TEXT) IS NULL OR w.project = :project)
  AND w.job_id < coalesce(CAST(:before AS TEXT), (SELECT max(job_id) || '~' FROM work_items WHERE namespace = :namespace))
ORDER BY w.job_id DESC
LIMIT :limit;

-- name: count_work
-- The number of work items by project, status and wait reason.
SELECT w.project, h.status, coalesce(h.wait_reason, ''), CAST(count(*) AS {int})
FROM work_items w JOIN job_heads h ON h.job_id = w.job_id
WHERE w.namespace = :namespace
GROUP BY w.project, h.status, coalesce(h.wait_reason, '');

-- name: list_unclaimed_work
-- Pending work that needs attention before an agent claims it: its deadline has passed, or it has mail.
SELECT job_id FROM (
    SELECT w.job_id FROM work_items w JOIN job_heads h ON h.job_id = w.job_id
    WHERE w.deadline_at IS NOT NULL AND w.deadline_at <= {now} AND h.status = 'pending'
    UNION
    SELECT w.job_id FROM job_heads h JOIN work_items w ON w.job_id = h.job_id
    WHERE h.status = 'pending' AND h.mail_seq > 0
) AS unclaimed
ORDER BY job_id LIMIT :limit;

-- name: list_unpreferred_work
-- The kinds of pending work that prefers a type of agent, and that no agent of this type has claimed for a while.
SELECT DISTINCT h.kind FROM work_items w JOIN job_heads h ON h.job_id = w.job_id
WHERE w.preferred_type <> '' AND w.capability {any:capabilities} AND h.status = 'pending'
  AND h.ready_at <= {now} - CAST(:grace_us AS {int})
ORDER BY h.kind;

-- name: remove_work
-- Remove the work item of the job.
DELETE FROM work_items WHERE job_id = :job_id;

-- name: get_entry
-- The agent's entry, its revision, and the time of its last heartbeat.
SELECT entry, revision, heard_at FROM agent_entries WHERE namespace = :namespace AND guid = :guid;

-- name: insert_entry
-- Insert the entry. No row: there is one. The first revision is the store's time, so that it is larger than any
-- revision that this agent had before: an entry that was removed and inserted again is another one.
INSERT INTO agent_entries (namespace, guid, revision, entry, heard_at)
VALUES (:namespace, :guid, {now}, :entry, {now})
ON CONFLICT (namespace, guid) DO NOTHING
RETURNING revision, heard_at;

-- name: update_entry
-- Replace the entry. No row: it no longer has the revision that was read.
UPDATE agent_entries SET entry = :entry, revision = revision + 1, heard_at = {now}
WHERE namespace = :namespace AND guid = :guid AND revision = :over
RETURNING revision, heard_at;

-- name: remove_entry
-- Remove the entry. No row: it no longer has the revision that was read.
DELETE FROM agent_entries WHERE namespace = :namespace AND guid = :guid AND revision = :over
RETURNING guid;

-- name: list_entries
-- Every entry of the namespace.
SELECT entry, revision, heard_at FROM agent_entries WHERE namespace = :namespace;
