"""Worker: a process that claims and runs jobs, keeps its lease, and drains on request."""
