"""How many worlds are lived through."""

QUICK = 600
"""In `make test`, in slices that can run side by side."""

SLICES = 3
CHAOS = 10_000
