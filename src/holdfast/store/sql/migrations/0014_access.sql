-- API keys, and the log of privileged acts.

CREATE TABLE api_keys (
    key_id {text} PRIMARY KEY,
    namespace {text} NOT NULL REFERENCES namespaces (namespace),
    name {text} NOT NULL,
    roles {text} NOT NULL,
    digest {bytes} NOT NULL,
    session_id {text},
    expires_at {int},
    created_at {int} NOT NULL,
    revoked_at {int},
    last_used_at {int}
) {options};

CREATE INDEX api_keys_by_namespace ON api_keys (namespace, key_id);

-- The last line of each namespace's log. Whoever writes a line holds this row.
CREATE TABLE audit_heads (
    namespace {text} PRIMARY KEY REFERENCES namespaces (namespace),
    seq {int} NOT NULL,
    hash {bytes} NOT NULL
) {options};

CREATE TABLE audit_acts (
    namespace {text} NOT NULL REFERENCES namespaces (namespace),
    seq {int} NOT NULL CHECK (seq >= 1),
    act_id {text} NOT NULL,
    at {int} NOT NULL,
    what {text} NOT NULL,
    body {bytes} NOT NULL,
    hash {bytes} NOT NULL,
    PRIMARY KEY (namespace, seq),
    UNIQUE (namespace, act_id)
) {options};

-- Nobody changes or removes a line.

-- only: sqlite
CREATE TRIGGER acts_are_not_changed BEFORE UPDATE ON audit_acts
BEGIN SELECT RAISE(ABORT, 'the audit log is append-only'); END;

CREATE TRIGGER acts_are_not_removed BEFORE DELETE ON audit_acts
BEGIN SELECT RAISE(ABORT, 'the audit log is append-only'); END;

-- only: postgres
CREATE FUNCTION refuse_audit_change() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'the audit log is append-only' USING ERRCODE = 'integrity_constraint_violation';
END $$;

CREATE TRIGGER acts_are_not_changed BEFORE UPDATE OR DELETE ON audit_acts
FOR EACH ROW EXECUTE FUNCTION refuse_audit_change();
