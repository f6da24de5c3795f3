"""Prometheus metrics of a process and its store.

    table     every metric: its name, its labels, its meaning
    meter     counts and times what the engine and the HTTP server do
    gauges    reads the store and the disk on a scrape, at most once in a few seconds
    loops     the delay of the event loop

A registry belongs to one server or worker of a process; there is no global one.
"""
