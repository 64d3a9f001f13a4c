"""The parts of scripts/probe.py, which looks at the first steps of a training program on a box.

A box gets one file, a person edits these. `rgt dev docs --write` puts the modules and the template
together. They need Python 3.8 and the standard library, and import nothing but `drawing/` from
outside this room; torch is the program's own. No other room imports them: a laptop sends the one
file, or starts it.
"""
