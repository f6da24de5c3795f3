"""The domain model: values and rules as pure functions. No clock, no await, no I/O, no global state."""
