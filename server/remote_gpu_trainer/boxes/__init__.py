"""A machine, here or over ssh."""
