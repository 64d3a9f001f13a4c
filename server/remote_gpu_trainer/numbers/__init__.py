"""What a log says by its numbers. Standard library, Python 3.8: it also runs on a box."""
