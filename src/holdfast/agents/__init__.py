"""The authoring API: agents, tools, steps, and the functions that code inside a job calls."""
