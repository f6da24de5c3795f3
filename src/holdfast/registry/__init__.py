"""Registry of external agents, kept in the store or in a NATS bucket."""
