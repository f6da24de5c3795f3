"""What a process did and how its store is, as Prometheus reads it.

    table     every metric there is: its name, its labels, what it means
    meter     counts and times what the engine and the HTTP service do
    gauges    reads the store and the disk when somebody asks, and not more often than every few seconds
    loops     how late the event loop is

A registry belongs to one process's door; there is none for the whole of Python.
"""
