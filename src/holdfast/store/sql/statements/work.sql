-- Work routed by capability, and agents that live elsewhere.

-- name: insert_work
-- The job is a work item.
INSERT INTO work_items (job_id, namespace, project, capability, boundary, preferred_type, deadline_at)
VALUES (:job_id, :namespace, :project, :capability, :boundary, :preferred_type, :deadline_at);

-- name: find_work
-- What is asked of this job, if it is a work item.
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
-- How many work items of each project have each state.
SELECT w.project, h.status, coalesce(h.wait_reason, ''), CAST(count(*) AS {int})
FROM work_items w JOIN job_heads h ON h.job_id = w.job_id
WHERE w.namespace = :namespace
GROUP BY w.project, h.status, coalesce(h.wait_reason, '');

-- name: list_unclaimed_work
-- Pending work that should not wait for somebody to claim it: its deadline has passed, or somebody wrote to it.
SELECT job_id FROM (
    SELECT w.job_id FROM work_items w JOIN job_heads h ON h.job_id = w.job_id
    WHERE w.deadline_at IS NOT NULL AND w.deadline_at <= {now} AND h.status = 'pending'
    UNION
    SELECT w.job_id FROM job_heads h JOIN work_items w ON w.job_id = h.job_id
    WHERE h.status = 'pending' AND h.mail_seq > 0
) AS unclaimed
ORDER BY job_id LIMIT :limit;

-- name: list_unpreferred_work
-- The kinds of work for which a type of agent was preferred, and which none of that type has taken for a while.
SELECT DISTINCT h.kind FROM work_items w JOIN job_heads h ON h.job_id = w.job_id
WHERE w.preferred_type <> '' AND w.capability {any:capabilities} AND h.status = 'pending'
  AND h.ready_at <= {now} - CAST(:grace_us AS {int})
ORDER BY h.kind;

-- name: remove_work
-- Nothing says any more that the job was a work item.
DELETE FROM work_items WHERE job_id = :job_id;

-- name: get_entry
-- The agent's entry, its revision, when it was heard.
SELECT entry, revision, heard_at FROM agent_entries WHERE namespace = :namespace AND guid = :guid;

-- name: insert_entry
-- The entry is there. No row: there was one. A revision goes on from the last one that this agent ever had, as far as
-- the store's time tells, so that an entry that was removed and made again is another one.
INSERT INTO agent_entries (namespace, guid, revision, entry, heard_at)
VALUES (:namespace, :guid, {now}, :entry, {now})
ON CONFLICT (namespace, guid) DO NOTHING
RETURNING revision, heard_at;

-- name: update_entry
-- The entry is this one instead. No row: it was not the one that was read.
UPDATE agent_entries SET entry = :entry, revision = revision + 1, heard_at = {now}
WHERE namespace = :namespace AND guid = :guid AND revision = :over
RETURNING revision, heard_at;

-- name: remove_entry
-- The entry is gone. No row: it was not the one that was read.
DELETE FROM agent_entries WHERE namespace = :namespace AND guid = :guid AND revision = :over
RETURNING guid;

-- name: list_entries
-- Every entry of the namespace.
SELECT entry, revision, heard_at FROM agent_entries WHERE namespace = :namespace;
