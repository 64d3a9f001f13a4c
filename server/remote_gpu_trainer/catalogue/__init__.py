"""The entries of the catalogue: their grammar, how they are read, and what checks them."""
