"""Ranked entries become the answer that an agent reads."""
