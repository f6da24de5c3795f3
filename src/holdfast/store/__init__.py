"""Where facts are kept: one contract, kept by SQLite, Postgres and memory alike."""
