"""The entries: their grammar, reading and checking."""
