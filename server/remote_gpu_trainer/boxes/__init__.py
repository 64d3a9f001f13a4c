"""Run programs on a machine, here or over ssh."""
