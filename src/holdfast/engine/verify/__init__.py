"""Checking a store against its invariants: a command, not only a test."""
