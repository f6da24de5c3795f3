"""The rules in motion."""
