"""A process that drives jobs: claims what fits, keeps its leases, drains when asked."""
