"""The entries of the catalogue: read them, check them, write new ones."""
