"""Ports: one small protocol for each noun. The docstrings are the contract; `holdfast.testing.conformance` asserts
it."""
