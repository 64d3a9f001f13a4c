"""Runs of the programs that people really write, through what happens on rented boxes: python -m tests.bench."""
