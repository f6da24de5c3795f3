"""How many worlds are lived through."""

QUICK = 1000
"""In `make test`, in slices that can run side by side."""

SLICES = 4
CHAOS = 10_000
