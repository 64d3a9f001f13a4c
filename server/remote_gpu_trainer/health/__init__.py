"""Is this box fit to train on: run the prober, read its answer, show it."""
