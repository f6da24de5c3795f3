"""Tables: each port, implemented once over an executor for both databases."""
