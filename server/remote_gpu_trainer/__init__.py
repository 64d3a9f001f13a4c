"""Look-up, checks and scripts for training on a rented GPU box."""

__version__ = "0.1.0"
