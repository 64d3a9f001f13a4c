"""A snapshot of a run: where each rank stands, and what the box knows, before both are gone.

`collect` asks, each question in a child of its own; `judge` says which rank differs; `page` says it
in short. Only `collect` and what it calls touch the box, and they read only. The modules are built
into one file, scripts/snapshot.py.
"""
