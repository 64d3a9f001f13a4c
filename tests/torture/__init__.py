"""Runs of a small trainer to which one to three things happen at random instants: python -m tests.torture."""
