"""Backup and restore. A backup is always a Holdfast SQLite file, whichever database it came from or goes to."""
