"""Store: journals and all other records, behind one contract that SQLite, Postgres and memory implement."""
