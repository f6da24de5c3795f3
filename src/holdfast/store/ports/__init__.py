"""One small protocol per noun. The docstrings are the contract; `holdfast.testing.conformance` asserts it."""
