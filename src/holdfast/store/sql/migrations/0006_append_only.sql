-- The journal is append-only: the database itself refuses to change or remove a fact. Only the retention job may, and
-- only inside a transaction that holds a row of `retention_gate`.

-- only: sqlite
CREATE TRIGGER events_are_not_changed BEFORE UPDATE ON events
WHEN NOT EXISTS (SELECT 1 FROM retention_gate)
BEGIN SELECT RAISE(ABORT, 'the journal is append-only'); END;

CREATE TRIGGER events_are_not_removed BEFORE DELETE ON events
WHEN NOT EXISTS (SELECT 1 FROM retention_gate)
BEGIN SELECT RAISE(ABORT, 'the journal is append-only'); END;

-- only: postgres
CREATE FUNCTION refuse_journal_change() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF NOT EXISTS (SELECT 1 FROM retention_gate) THEN
        RAISE EXCEPTION 'the journal is append-only' USING ERRCODE = 'integrity_constraint_violation';
    END IF;
    IF TG_OP = 'DELETE' THEN RETURN OLD; END IF;
    RETURN NEW;
END $$;

CREATE TRIGGER events_are_not_changed BEFORE UPDATE OR DELETE ON events
FOR EACH ROW EXECUTE FUNCTION refuse_journal_change();
