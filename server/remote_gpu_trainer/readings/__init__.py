"""Read the numbers that a program prints of its training: one reader for the box and for here.

Standard library, Python 3.8: run.sh takes this room along.
"""
