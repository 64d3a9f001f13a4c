"""The scene of a run: who stands where, and what the box knows, before both are gone.

`collect` asks, each question in a process of its own; `judge` says what is odd; `page` says it in
short. Only `collect` and what it calls touch the box, and they read only.
"""
