"""Operations: the public API of Holdfast, each operation declared once.

An operation is a request struct, a response struct and a handler over the store, declared with its HTTP line, its
scope and its audit rule (`api.operation`). The route and its OpenAPI, the client's method over HTTP and the same
method in process all come from that declaration. Files are named by their noun.
"""
