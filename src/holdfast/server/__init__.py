"""The HTTP API: the client's words over the wire, and nothing that the client does not do itself.

    app         the ASGI application: guards, then the table of endpoints, then an answer or a problem
    endpoints   the table: `routes/` has a file for each noun
    shapes      what is asked and answered; `openapi` is made from them and from the table
    serving     uvicorn, bound to loopback unless somebody insists, drained before it ends

Only this package knows starlette and uvicorn (`pip install 'holdfast[server]'`).
"""
