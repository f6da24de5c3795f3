"""Where agents that live elsewhere are found: in the store, or in a bucket of NATS."""
