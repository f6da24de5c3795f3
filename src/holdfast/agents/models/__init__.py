"""Models: people's own clients, journaled; and a small client of our own for all of them."""
