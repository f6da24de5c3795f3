"""Engine: executes jobs over their journals: replay, side effects, leases, recovery."""
