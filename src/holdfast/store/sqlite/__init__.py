"""SQLite backend: executor, write lock, connections, error translation, wake-ups, migrations."""
