"""Is this box fit to train on: run the box check, read its answer, show it.

The check itself is `box_check/`, which a box gets as scripts/gpu_health.py.
"""
