-- Agents that are configured, not written.

CREATE TABLE agents (
    namespace {text} NOT NULL REFERENCES namespaces (namespace),
    agent_id {text} NOT NULL,
    name {text} NOT NULL,
    kind {text} NOT NULL,
    configuration {bytes} NOT NULL,
    created_at {int} NOT NULL,
    PRIMARY KEY (namespace, agent_id),
    UNIQUE (namespace, name)
) {options};
