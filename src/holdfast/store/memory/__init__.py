"""Memory store: the reference model with which the database stores are compared.

It shares no code with the databases, so their agreement with it is evidence. It is simple rather than fast: every write
works on a private copy of all tables and swaps it in at the end (`state.transaction`), so an exception anywhere leaves
nothing behind, and every lookup that is not by key is a scan.
"""
