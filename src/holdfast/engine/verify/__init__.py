"""Verification: checks a store against its invariants, as a command and not only in tests."""
