"""Each port implemented once, over an Executor."""
