"""The project's own tools. `make` calls them; each also runs as `python -m tools.NAME`."""
