"""Holdfast beside the raw database, in one run.

    python -m bench                     every suite
    python -m bench append --quick      one of them, roughly
    python -m bench --store sqlite      without a server

A machine is noisy and a disk is whatever it is, so no absolute time means anything here. Every goal is a *ratio* of two
contestants that took turns in the same run, on the same disk, at the same durability. A missed goal is printed as
missed; it fails nothing.
"""
