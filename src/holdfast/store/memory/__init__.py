"""The store as a page of dictionaries: what the others are compared with.

It shares no code with the databases, so that agreement between them means something. It prefers to be obviously right
over being fast: every write works on a private copy of all tables and swaps it in at the end (`state.transaction`), so
an exception anywhere leaves nothing behind, and every lookup that is not by key is a scan.
"""
