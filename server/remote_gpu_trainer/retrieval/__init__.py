"""Evidence becomes a ranking of the entries."""
