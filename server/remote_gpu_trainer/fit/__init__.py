"""Reckon whether training a model fits a GPU, and what would save memory."""
