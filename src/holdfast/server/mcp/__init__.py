"""MCP server: Holdfast's operations as tools for a model, over stdin and stdout.

    tools             the table: name, arguments and description of each tool
    work              tools for work and agents
    operation_tools   tools derived from the operations of `holdfast.api`
    lease_keeper      renews the leases of the work that this session has claimed, while the process lives
    summaries         results that fit into a model's context, and say what was left out
    server            the protocol: schemas out, calls in, errors in a form for the model

Only this package imports `mcp` as a server (`pip install 'holdfast[mcp]'`).
"""
