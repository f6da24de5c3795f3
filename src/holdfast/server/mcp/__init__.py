"""Holdfast for a model: the client's words as tools of an MCP server, over stdin and stdout.

    tools     the table: what each tool is called, what it takes, what it is for
    work      work and agents;  jobs: jobs, dead letters, what waits for a person
    keeping   leases of what this session has claimed, kept alive while the process lives
    brief     answers that fit into a model's context, and say what was left out
    server    the protocol: schemas out, calls in, errors as the model can read them

Only this package knows `mcp` as a server (`pip install 'holdfast[mcp]'`).
"""
