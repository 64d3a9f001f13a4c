"""What a run does next, decided without a clock, a file or a process.

`decide.py` composes it; `model.py` holds what it is given and gives back; each other module is one
decision. runner/ observes, does, and decides nothing.
"""
