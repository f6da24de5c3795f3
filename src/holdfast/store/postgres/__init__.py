"""Postgres backend: executor, connection pool, server clock, error translation, wake-ups, migrations."""
