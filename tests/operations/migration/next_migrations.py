"""Synthetic migrations: what the next versions of Holdfast might add to the schema.

The package has as many migrations as it needs. The machinery is proven with these behind them: a table, columns of hot
tables with data to fill in, an index that is replaced, and parts for one database alone.
"""

from __future__ import annotations

import functools
from typing import Final

from holdfast.store.sql.dialect import Dialect
from holdfast.store.sql.migrate import SCHEMA_VERSION, Migration, load_migrations, parse_migration

SOURCES: Final = {
    "labels": """
CREATE TABLE labels (
    namespace {text} NOT NULL REFERENCES namespaces (namespace),
    job_id {text} NOT NULL REFERENCES jobs (job_id),
    label {text} NOT NULL,
    PRIMARY KEY (namespace, label, job_id)
) {options};
INSERT INTO labels SELECT namespace, job_id, kind FROM jobs;
""",
    "columns": """
ALTER TABLE jobs ADD COLUMN rank {int};
ALTER TABLE job_heads ADD COLUMN rank {int};
UPDATE jobs SET rank = priority;
CREATE INDEX jobs_by_rank ON jobs (rank, job_id) WHERE rank IS NOT NULL;
""",
    "triggers": """
DROP INDEX heads_due;
CREATE INDEX heads_due ON job_heads (wake_at, job_id) WHERE status = 'waiting' AND wake_at IS NOT NULL;

-- only: sqlite
CREATE TRIGGER labels_are_not_changed BEFORE UPDATE ON labels
BEGIN SELECT RAISE(ABORT, 'a label is not changed'); END;

-- only: postgres
CREATE FUNCTION refuse_label_change() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'a label is not changed' USING ERRCODE = 'integrity_constraint_violation';
END $$;

CREATE TRIGGER labels_are_not_changed BEFORE UPDATE ON labels
FOR EACH ROW EXECUTE FUNCTION refuse_label_change();
""",
}

LAST: Final = SCHEMA_VERSION + len(SOURCES)
"""The schema of a version that has all of them."""


@functools.cache
def all_migrations(dialect: Dialect) -> tuple[Migration, ...]:
    """The package's migrations, and the synthetic ones after them."""
    added = (
        parse_migration(SCHEMA_VERSION + nth, name, source, dialect)
        for nth, (name, source) in enumerate(SOURCES.items(), 1)
    )
    return (*load_migrations(dialect), *added)
