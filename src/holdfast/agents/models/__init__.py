"""Models: a wrapped client of the user, with journaled requests; and a small client of our own for all providers."""
