"""SQLite: executor, error translation, wake-ups; nothing else."""
