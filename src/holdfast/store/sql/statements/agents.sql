-- Configured agents.

-- name: insert_agent
-- Store the agent. No row: its id or its name is taken.
INSERT INTO agents (namespace, agent_id, name, kind, configuration, created_at)
VALUES (:namespace, :agent_id, :name, :kind, :configuration, {now})
ON CONFLICT DO NOTHING
RETURNING created_at;

-- name: get_agent
-- The agent of this id.
SELECT agent_id, name, kind, configuration, namespace, created_at FROM agents
WHERE namespace = :namespace AND agent_id = :agent_id;

-- name: find_agent
-- The agent of this name.
SELECT agent_id, name, kind, configuration, namespace, created_at FROM agents
WHERE namespace = :namespace AND name = :name;

-- name: list_agents
-- A page of agents by name. No name is empty, so the first page starts after the empty one.
SELECT agent_id, name, kind, configuration, namespace, created_at FROM agents
WHERE namespace = :namespace AND name > :after ORDER BY name LIMIT :limit;
