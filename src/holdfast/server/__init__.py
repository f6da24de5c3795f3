"""The HTTP API server: the operations of `holdfast.api` over HTTP, without logic of its own.

    app         the ASGI application: guards, then the table of endpoints, then a response or a problem
    endpoints   the table: `routes/` has a file for each noun
    schemas     request and response types; `openapi` is made from them and from the table
    serving     uvicorn, bound to loopback by default, drained before it ends

Only this package imports starlette and uvicorn (`pip install 'holdfast[server]'`).
"""
