"""What things are: pure values and rules. No clock, no await, no I/O, no global state."""
