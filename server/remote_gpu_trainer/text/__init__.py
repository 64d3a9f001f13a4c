"""Mask secrets, write whole files, and define the errors that every command shows."""
