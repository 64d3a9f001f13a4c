"""Programs of the bench to which one to three things happen, all drawn by a seed: python -m tests.torture."""
